/** Tasks and commands, with a worker that has the code. */

import assert from "node:assert/strict";
import test from "node:test";
import { CommandRefused, NotFound, StillOpen, connect } from "anabranch/client";
import { provided } from "./serving.js";

const client = connect(provided("ANABRANCH_TEST_URL"), provided("ANABRANCH_TEST_TOKEN"));

test("a task is run and waited for", async () => {
  const task = await client.enqueue("doubles", "node", 21);
  assert.ok(task.isNew);
  const done = await client.wait(task, { timeout: 60 });
  assert.deepEqual([done.state, done.result, done.pool, done.key], ["done", 42, "doubles", "node"]);
  assert.equal((await client.task(task.id)).raw.payload, 21);
});

test("one that is not over says so", async () => {
  const at = Date.now() + 3_600_000;
  for (const when of [{ after: 3600 }, { at: new Date(at) }, { at: new Date(at).toISOString() }]) {
    const later = await client.enqueue("doubles", "later", 1, when);
    const still = await client.wait(later, { timeout: 0.1 }).then(assert.fail, (error) => error);
    assert.ok(still instanceof StillOpen);
    assert.equal(still.task.state, "scheduled");
    assert.ok(Math.abs(Date.parse(still.task.raw.run_at) - at) < 60_000, still.task.raw.run_at);
  }
  await assert.rejects(client.wait("018f7b86-0000-7000-8000-000000000001"), NotFound);
});

test("a command is carried out once", async () => {
  const id = "018f7b86-0000-7000-8000-00000000000b";
  const send = () => client.sendCommand("counters", "node", { Add: 9_007_199_254_740_993n }, { id });
  const [first, again] = [await send(), await send()];
  assert.deepEqual([first.isNew, again.isNew, first.commandId, again.id], [true, false, id, first.id]);
  assert.deepEqual(await client.waitForCommand(first, { timeout: 60 }), { events: 1, version: 1 });
});

test("why a command was not carried out", async () => {
  for (const [command, outcome, why] of [
    [{ Add: -1 }, "rejected", /it would be negative/],
    [{ Subtract: 1 }, "unreadable", /Subtract/],
  ]) {
    const sent = await client.sendCommand("counters", "node-refused", command);
    await assert.rejects(client.waitForCommand(sent, { timeout: 60 }), (error) => {
      assert.ok(error instanceof CommandRefused);
      assert.equal(error.outcome, outcome);
      assert.match(error.message, why);
      return true;
    });
  }
});
