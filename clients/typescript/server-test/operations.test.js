/** Operations: planned, applied, cancelled, and in the journal. */

import assert from "node:assert/strict";
import test from "node:test";
import { Conflict, NotFound, connect } from "anabranch/client";
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

test("a cancelled plan is not applied", async () => {
  const plan = await client.plan({ do: "pause_key", pool: "doubles", key: "node-cancelled" });
  assert.equal((await client.cancel(plan)).state, "cancelled");
  await assert.rejects(client.apply(plan), Conflict);
  assert.equal((await all(client.journal({ plan }))).some((entry) => entry.stage === "applied"), false);
  await assert.rejects(client.showPlan("018f7b86-0000-7000-8000-000000000001"), NotFound);
});
