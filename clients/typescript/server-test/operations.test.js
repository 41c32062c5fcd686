/** Operations: planned, applied, cancelled, and in the journal. */

import assert from "node:assert/strict";
import test from "node:test";
import { Conflict, Invalid, NotFound, NotTheApi, StillRunning, connect } from "anabranch/client";
import { all, provided } from "./serving.js";

const client = connect(provided("ANABRANCH_TEST_URL"), provided("ANABRANCH_TEST_TOKEN"));

test("a plan is applied once and is in the journal", async () => {
  const pause = { do: "pause_key", pool: "doubles", key: "node-paused" };
  const plan = await client.plan(pause);
  assert.deepEqual([plan.state, plan.raw.request], ["open", pause]);
  assert.match(plan.says, /node-paused/);
  assert.deepEqual(await all(client.journal({ plan })), []);
  assert.equal((await client.apply(plan)).state, "done");
  assert.equal((await client.showPlan(plan.id)).state, "done");
  await assert.rejects(client.apply(plan), (error) => error instanceof Conflict && error.code === "plan_used");
  const [entry] = await all(client.journal({ plan }));
  assert.deepEqual([entry.stage, entry.who, entry.plan], ["applied", "test", plan.id]);
  assert.equal((await client.apply(await client.plan({ ...pause, do: "resume_key" }))).state, "done");
  assert.equal((await all(client.journal({ target: "doubles", limit: 1 }))).length, 1);
});

test("a plan that goes step by step is waited for", async () => {
  for (const number of [0, 1, 2]) await client.enqueue("node-slow", `key-${number}`, null, { after: 3600 });
  const cancel = { do: "tasks", action: "cancel", where: ["pool=node-slow"], per_second: 1 };
  const plan = await client.plan(cancel);
  assert.equal((await client.waitForPlan(plan, { timeout: 0 })).state, "open", "nobody has applied it");
  assert.equal((await client.apply(plan)).state, "running");
  const isStill = (/** @type {unknown} */ error) => error instanceof StillRunning && error.plan.id === plan.id;
  await assert.rejects(client.waitForPlan(plan, { timeout: 0 }), isStill);
  assert.equal((await client.waitForPlan(plan.id)).state, "done");
  await assert.rejects(client.plan({ do: "tasks", action: "cancel" }), Invalid);
  assert.equal((await client.plan({ do: "tasks", action: "retry", all: true })).state, "open");
});

test("https to a server that speaks http says so", async () => {
  const url = provided("ANABRANCH_TEST_URL").replace("http://", "https://");
  const wrong = connect(url, provided("ANABRANCH_TEST_TOKEN"));
  const plain = (/** @type {unknown} */ error) => error instanceof NotTheApi && error.message.includes("http://");
  await assert.rejects(wrong.showPlan("018f7b86-0000-7000-8000-000000000001"), plain);
});

test("a cancelled plan is not applied", async () => {
  const plan = await client.plan({ do: "pause_key", pool: "doubles", key: "node-cancelled" });
  assert.equal((await client.cancel(plan)).state, "cancelled");
  await assert.rejects(client.apply(plan), Conflict);
  assert.equal((await all(client.journal({ plan }))).some((entry) => entry.stage === "applied"), false);
  await assert.rejects(client.showPlan("018f7b86-0000-7000-8000-000000000001"), NotFound);
});
