/** How a program begins and ends, and who may write to its pipes. */

import assert from "node:assert/strict";
import test from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { event, start } from "./engine.js";

const QUIET = "await run((event, tx) => tx.execute('x', process.pid));";

test("the end of input ends it", async (t) => {
  const program = await start(t, `${QUIET} console.error("after");`);
  assert.equal(await program.end(), 0);
  assert.equal(program.log(), "after\n");
});

test("the end of input ends it although something is left to wait for", async (t) => {
  const program = await start(t, `setInterval(() => {}, 1000); ${QUIET}`);
  assert.equal(await program.end(), 0);
  assert.equal(program.log(), "");
});

test("the end of input within a batch ends it", async (t) => {
  const program = await start(
    t,
    `await run(async (event, tx) => {
      try { await tx.query("SELECT 1"); } catch {}
      tx.execute("x");
    })`,
  );
  program.batch(1, event("A"));
  await program.hear();
  assert.equal(await program.end(), 0);
  assert.equal(program.log(), "");
});

test("half a batch is no batch", async (t) => {
  const program = await start(t, QUIET);
  program.raw('{"batch":1,"events":[]}');
  assert.equal(await program.end(), 0);
  assert.equal(program.log(), "");
});

test("an output that nobody reads ends it", async (t) => {
  const program = await start(t, QUIET);
  program.process.stdout.destroy();
  for (let number = 1; !program.hasEnded; number++) {
    program.batch(number, event("A"));
    await turn();
  }
  assert.equal(await program.wait(), 0);
  assert.equal(program.log(), "");
});

test("SIGTERM ends it without a word", async (t) => {
  const program = await start(t, QUIET);
  program.batch(1, event("A"));
  const [{ values }] = await program.hearAll();
  process.kill(values[0], "SIGTERM");
  assert.equal(await program.wait(), 128 + 15);
  assert.equal(program.log().replace(/^.*Terminated.*\n/, ""), "");
});

test("another version is refused", async (t) => {
  const program = await start(t, QUIET, { greet: false });
  assert.equal((await program.greet({ protocol: 2 })).hello.protocol, 1);
  assert.equal(await program.wait(), 1);
  assert.match(program.log(), /^anabranch: Anabranch speaks version 2 of the protocol and this package version 1; .*\n$/);
});

test("what it does not understand ends it", async (t) => {
  for (const line of ["hello", "[1]", '{"batch":"one","events":[]}', "null", '{"batch":1,"tasks":[{},{}]}']) {
    const program = await start(t, "await runTasks(() => {})");
    program.raw(`${line}\n`);
    assert.equal(await program.wait(), 1, line);
    assert.match(program.log(), /^anabranch: /);
  }
  const greeting = await start(t, QUIET, { greet: false });
  greeting.batch(1);
  assert.equal(await greeting.wait(), 1);
  assert.match(greeting.log(), /a greeting was expected/);
  const rows = await start(t, "await run(async (event, tx) => void (await tx.query('x')))");
  rows.batch(1, event("A"));
  await rows.hear();
  rows.say({ rows: 1 });
  assert.equal(await rows.wait(), 1);
  assert.match(rows.log(), /rows were expected/);
});

test("nobody else writes to standard output", async (t) => {
  const program = await start(
    t,
    `import { spawnSync } from "node:child_process";
    import fs from "node:fs";
    console.log("before");
    await run((event, tx) => {
      console.log("logged");
      console.table([{ tabled: 1 }]);
      process.stdout.write("written\\n");
      fs.writeSync(1, "descriptor\\n");
      spawnSync("sh", ["-c", "echo started"], { stdio: "inherit" });
      tx.execute("x");
    })`,
    { greet: false },
  );
  // What is printed before `run` is no answer either, but there it is the user's mistake.
  assert.equal(await program.line(), "before");
  await program.greet();
  for (const number of [1, 2]) {
    program.batch(number, event("A"));
    assert.deepEqual((await program.hearAll()).map((it) => Object.keys(it)[0]), ["execute", "done"]);
  }
  assert.equal(await program.end(), 0);
  for (const word of ["logged", "tabled", "written", "descriptor", "started"]) {
    assert.equal(program.log().split(word).length, 3, `${word} in ${program.log()}`);
  }
});

test("console.log does not disturb a program with sockets, either", async (t) => {
  const program = await start(t, "await run((event, tx) => { console.log('logged'); tx.execute('x'); })", { sockets: true });
  program.batch(1, event("A"));
  assert.equal((await program.hearAll()).length, 2);
  assert.equal(await program.end(), 0);
  assert.equal(program.log(), "logged\n");
});

test("nobody else reads batches", async (t) => {
  const program = await start(
    t,
    `import { spawnSync } from "node:child_process";
    await run((event, tx) => {
      const { stdout } = spawnSync("cat", { stdio: ["inherit", "pipe", "inherit"] });
      tx.execute("x", String(stdout));
    })`,
  );
  program.batch(1, event("A"));
  program.batch(2, event("A"));
  const said = [...(await program.hearAll()), ...(await program.hearAll())];
  assert.deepEqual(said.map((it) => it.values), [[""], undefined, [""], undefined]);
});

test("process.exit in a handler ends the program", async (t) => {
  const program = await start(t, "await run(() => process.exit(3))");
  program.batch(1, event("A"));
  assert.equal(await program.wait(), 3);
  assert.equal(program.unread, "");
});
