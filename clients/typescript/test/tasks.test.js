/** Tasks of a pool. */

import assert from "node:assert/strict";
import test from "node:test";
import { start } from "./engine.js";

const SEND = `await runTasks(async (task, tx) => {
  if (task.payload === "fail") throw new Failed("away", { again: 5 });
  if (task.payload === "set") return new Set();
  if (task.payload === "steps") {
    for (let step = task.checkpoint ?? 0; step < 3; step++) await task.save(step + 1);
    return task.checkpoint;
  }
  if (task.payload === null) return;
  tx.enqueue("next", task.key, [task.id, task.attempt, task.idempotencyKey]);
  tx.execute("UPDATE t SET done = $1", true);
  return { sent: task.payload };
})`;

test("results and failures", async (t) => {
  const program = await start(t, SEND);
  program.task(1);
  assert.deepEqual(await program.hearAll(), [{ done: 1 }]);
  program.task(2, { payload: "a", attempt: 2 });
  assert.deepEqual(await program.hearAll(), [
    { enqueue: { pool: "next", key: "c-1", payload: ["t-1", 2, "i-1"] }, event: 0 },
    { execute: "UPDATE t SET done = $1", values: [true], event: 0 },
    { done: 2, result: { sent: "a" } },
  ]);
  program.task(3, { payload: "fail" });
  assert.deepEqual(await program.hearAll(), [{ failed: 3, event: 0, error: "away", again: 5 }]);
  program.task(4, { payload: "set" });
  assert.match((await program.hear()).error, /a Set is no value/);
  assert.equal(await program.end(), 0);
});

test("a task knows its trace", async (t) => {
  const program = await start(t, "await runTasks((task) => [task.traceparent]);");
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  program.task(1, { traceparent });
  assert.deepEqual((await program.hear()).result, [traceparent]);
  program.task(2);
  assert.deepEqual((await program.hear()).result, [null]);
});

test("checkpoints are answered", async (t) => {
  const program = await start(t, SEND);
  program.task(1, { payload: "steps", checkpoint: 1 });
  for (const step of [2, 3]) {
    assert.deepEqual(await program.hear(), { save: step });
    program.say({ saved: true });
  }
  assert.deepEqual(await program.hearAll(), [{ done: 1, result: 3 }]);
  program.task(2, { payload: "steps" });
  assert.deepEqual(await program.hear(), { save: 1 });
  program.say({ abandoned: 2, error: "another worker has it" });
  program.task(3);
  assert.deepEqual(await program.hearAll(), [{ done: 3 }]);
  program.task(4, { payload: "steps" });
  await program.hear();
  program.say({ columns: [], rows: [] });
  assert.equal(await program.wait(), 1);
  assert.match(program.log(), /`saved` were expected/);
});
