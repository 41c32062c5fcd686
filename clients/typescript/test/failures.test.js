/** Handlers that fail, and batches that are abandoned. */

import assert from "node:assert/strict";
import test from "node:test";
import { event, start } from "./engine.js";

test("an exception fails its event with one line", async (t) => {
  const program = await start(
    t,
    `async function check(data) {
      throw new RangeError("bad " + data + "\\ud800");
    }
    await run(async (event, tx) => {
      tx.execute("x");
      if (event.data) await check(event.data);
    })`,
  );
  program.batch(1, event("A"), event("A", "töt"), event("A"));
  const error = "RangeError: bad töt\ufffd (program.mjs:3, in check)";
  assert.deepEqual(await program.hearAll(), [{ failed: 1, event: 1, error }]);
  program.batch(2, event("A"));
  assert.deepEqual((await program.hearAll()).at(-1), { done: 2 });
  assert.match(program.log(), /at file:.*program\.mjs:7/);
});

test("whatever is thrown", async (t) => {
  const program = await start(t, "await run((event) => { throw event.data; })");
  for (const [data, error] of [["text", "text"], [null, "null"], [{ a: 1 }, "{ a: 1 }"]]) {
    program.batch(1, event("A", data));
    assert.deepEqual(await program.hearAll(), [{ failed: 1, event: 0, error }]);
  }
});

test("a value that does not fit is the handler's mistake", async (t) => {
  const program = await start(
    t,
    `const values = [undefined, new Set(), new Uint8Array(1), NaN, [Infinity], "\\ud800", Promise.resolve(), () => 1,
      new Date(NaN), [undefined], Symbol("s")];
    await run((event, tx) => tx.execute("x", 1, values[event.data]))`,
  );
  const errors = [
    /^TypeError: \$2: undefined is no value; use null \(program\.mjs:4\)$/,
    /^TypeError: \$2: a Set is no value/,
    /^TypeError: \$2: bytes are no value: pass them as hexadecimal/,
    /^TypeError: \$2: NaN is no number/,
    /^TypeError: \$2: Infinity is no number/,
    /^TypeError: \$2: half a character/,
    /^TypeError: \$2: a promise is no value; await it/,
    /^TypeError: \$2: a function is no value/,
    /^TypeError: \$2: an invalid date/,
    /^TypeError: \$2: undefined is no value/,
    /^TypeError: \$2: a symbol is no value/,
  ];
  for (const [number, error] of errors.entries()) {
    program.batch(number, event("A", number));
    const [failed] = await program.hearAll();
    assert.equal(failed.failed, number);
    assert.match(failed.error, error);
  }
});

test("events and tasks that cannot be are the handler's mistake", async (t) => {
  const calls = {
    'tx.enqueue("mail", event.customer)': /^TypeError: enqueue: key is a text, not null/,
    'tx.enqueue("mail", undefined)': /^TypeError: enqueue: key is a text, not undefined/,
    'tx.enqueue("mail", "c", 1, { after: -1 })': /^TypeError: enqueue: after is a number of seconds, a year at most, not -1/,
    'tx.enqueue("mail", "c", 1, { at: 5 })': /^TypeError: enqueue: at is a text, not 5/,
    'tx.enqueue("mail", "c", 1, { id: "some" })': /^TypeError: enqueue: id is a UUID, not some/,
    'tx.append(1, "T")': /^TypeError: append: stream is a text, not 1/,
    'tx.append("A:1", "T", 1, { tags: [1] })': /^TypeError: append: tags are a list of texts, not 1/,
    'tx.append("A:1", "T", 1, { expected: "some" })': /^TypeError: append: expected is "any", "none" or a version/,
  };
  const handlers = Object.keys(calls).map((call) => `(event, tx) => ${call}`);
  const program = await start(t, `const calls = [${handlers}]; await run((event, tx) => calls[event.data](event, tx));`);
  for (const [number, error] of Object.values(calls).entries()) {
    program.batch(1, event("A", number));
    assert.match((await program.hear()).error, error);
  }
});

test("Failed says whether to try again", async (t) => {
  const program = await start(
    t,
    `const agains = [true, false, 2.5, 0, -1, NaN];
    await run((event) => { throw new Failed("no", { again: agains[event.data] }); })`,
  );
  for (const [number, again] of [{}, { again: "never" }, { again: 2.5 }, { again: 0 }].entries()) {
    program.batch(1, event("A", number));
    assert.deepEqual(await program.hearAll(), [{ failed: 1, event: 0, error: "no", ...again }]);
  }
  assert.equal(program.log(), "");
  for (const number of [4, 5]) {
    program.batch(1, event("A", number));
    assert.match((await program.hear()).error, /^RangeError: again is false or a number of seconds/);
  }
});

test("nothing follows a failure", async (t) => {
  const program = await start(
    t,
    `const kept = [];
    await run((event, tx) => {
      for (const old of kept) {
        try {
          old.execute("late");
          tx.execute("not refused");
        } catch (error) {
          tx.execute("refused");
        }
      }
      kept.push(tx);
      if (event.type === "Bad") throw new Error("bad");
    })`,
  );
  program.batch(1, event("Bad"), event("A"));
  assert.deepEqual((await program.hearAll()).map((it) => it.failed), [1]);
  program.batch(2, event("A"), event("A"));
  const said = await program.hearAll();
  assert.deepEqual(said.map((it) => it.execute), ["refused", "refused", "refused", undefined]);
});

test("what is not awaited is no part of the next event", async (t) => {
  const program = await start(
    t,
    `await run((event, tx) => {
      if (event.data === "query") void tx.query("SELECT 1").catch(() => {});
      if (event.data === "later") void Promise.resolve().then(() => {}).then(() => {}).then(() => {
        try { tx.execute("late"); } catch (error) { console.error(error.message); }
      });
    })`,
  );
  program.batch(1, event("A", "query"), event("A"));
  assert.equal((await program.hear()).query, "SELECT 1");
  program.say({ columns: [], rows: [] });
  const [failed] = await program.hearAll();
  assert.equal(failed.event, 0);
  assert.match(failed.error, /before its query was answered: await tx\.query/);
  program.batch(2, event("A", "later"), event("A"), event("A"), event("A"), event("A"));
  assert.deepEqual(await program.hearAll(), [{ done: 2 }]);
  assert.match(program.log(), /the handler of this event has returned; await what it starts/);
});

test("an abandoned batch is forgotten", async (t) => {
  const program = await start(
    t,
    `await run(async (event, tx) => {
      tx.execute("before");
      await tx.query("SELECT 1");
      tx.execute("after");
    })`,
  );
  program.batch(1, event("A"), event("A"));
  assert.equal((await program.hear()).execute, "before");
  assert.equal((await program.hear()).query, "SELECT 1");
  program.say({ abandoned: 1, error: "no such table: t" });
  program.batch(2, event("A"));
  assert.equal((await program.hear()).execute, "before");
  assert.equal((await program.hear()).query, "SELECT 1");
  program.say({ columns: ["a"], rows: [[1]] });
  assert.deepEqual(await program.hearAll(), [{ execute: "after", values: [], event: 0 }, { done: 2 }]);
  assert.match(program.log(), /batch 1 was abandoned: no such table: t/);
  assert.equal(await program.end(), 0);
});

test("an abandoned batch cannot be swallowed", async (t) => {
  const program = await start(
    t,
    `await run(async (event, tx) => {
      console.error("event", event.data);
      for (const sql of ["SELECT 1", "SELECT 2"]) {
        try {
          await tx.query(sql);
        } catch (error) {
          console.error(error instanceof Abandoned, sql);
        }
      }
      try {
        tx.append("A:1", "B");
      } catch (error) {
        console.error("append", error instanceof Abandoned);
      }
      if (event.data === 2) throw new Error("something else");
    })`,
  );
  for (const number of [1, 2]) {
    program.batch(number, event("A", number), event("A", 99));
    assert.equal((await program.hear()).query, "SELECT 1");
    program.say({ abandoned: number, error: "lost" });
  }
  program.batch(3);
  assert.deepEqual(await program.hear(), { done: 3 });
  assert.equal(program.unread, "");
  const log = program.log();
  for (const words of ["true SELECT 1", "true SELECT 2", "append true", "event 2"]) assert.ok(log.includes(words), log);
  assert.ok(!log.includes("event 99"), log);
});

test("a handler that is no function", async (t) => {
  const calls = ["run()", "run('handle')", "runTasks(null)", "run({ batch: 1 })", "run(function* () {})"];
  for (const call of calls) {
    const program = await start(t, `await ${call}`, { greet: false });
    assert.equal(await program.wait(), 1);
    assert.match(program.log(), /TypeError: the handler is/);
  }
});

test("a program for events that is given tasks, and the other way round", async (t) => {
  const events = await start(t, "await run(() => {})");
  events.task(1);
  const [failed] = await events.hearAll();
  assert.equal(failed.again, "never");
  assert.match(failed.error, /this program handles events \(it calls run\), and was given tasks/);
  const tasks = await start(t, "await runTasks(() => {})");
  tasks.batch(1, event("A"));
  assert.match((await tasks.hear()).error, /it calls runTasks\), and was given events/);
});
