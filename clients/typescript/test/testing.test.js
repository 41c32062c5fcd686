/** Handlers without a database. */

import assert from "node:assert/strict";
import test from "node:test";
import { Failed } from "anabranch";
import { event, rehearse, rehearseTask } from "anabranch/testing";

async function handle(event, tx) {
  const row = await tx.queryFirst("SELECT total FROM risk WHERE customer = $1", event.customer);
  const total = (row?.total ?? 0) + event.data.total;
  if (total > 1000) throw new Failed("too much", { again: false });
  tx.execute("UPDATE risk SET total = $1 WHERE customer = $2", total, event.customer);
}

test("answers and failures", async () => {
  const given = [event("OrderPlaced", { total: 40 }, { customer: "c-1" })];
  const said = await rehearse(handle, given, { answer: (sql, values) => (values[0] === "c-1" ? [{ total: 60 }] : []) });
  assert.deepEqual(said[1].values, [100, "c-1"]);
  assert.deepEqual((await rehearse(handle, given, { answer: () => [] }))[1].values, [40, "c-1"]);
  await assert.rejects(rehearse(handle, given, { answer: () => [{ total: 1000 }] }), Failed);
  await assert.rejects(rehearse(handle, given), /give rehearse an answer/);
});

test("batches, tasks and events", async () => {
  const batch = (events, tx) => tx.execute("x", events.length);
  assert.deepEqual(await rehearse({ batch }, [event("A"), event("B")]), [{ execute: "x", values: [2] }]);
  const send = async (task) => {
    await task.save("halfway");
    return task.payload;
  };
  assert.deepEqual(await rehearseTask(send, { to: "x" }), [{ save: "halfway" }, { done: 1, result: { to: "x" } }]);
  assert.throws(() => event("A", null, { custmer: "c-1" }), /an event has no custmer/);
});

test("values that are passed as a list are refused", async () => {
  const said = async (...given) => (await rehearse((_, tx) => tx.execute(...given), [event("A")]))[0].values;
  for (const given of [["INSERT INTO t VALUES ($1, $2)", [1, 2]], ["DELETE FROM t", []]]) {
    await assert.rejects(said(...given), /^TypeError: pass values one by one, not as a list: tx.execute\(sql, a, b\)$/);
    const query = async (_, tx) => void (await tx.queryFirst(...given));
    await assert.rejects(rehearse(query, [event("A")], { answer: () => [] }), /one by one/);
  }
  assert.deepEqual(await said("DELETE FROM t WHERE id = ANY($1) AND price <> '$5'", [1, 2]), [[1, 2]]);
  assert.deepEqual(await said("-- don't\nDELETE FROM t WHERE id = ANY($1) /* '$2 */ AND k <> 'x'", [1]), [[1]]);
  assert.deepEqual(await said("INSERT INTO t VALUES ($1, $2)", [1, 2], [3]), [[1, 2], [3]]);
  assert.deepEqual(await said("UPDATE t SET a = $1 WHERE b = $1", [1]), [[1]]);
});

test("waits of more than a year are refused", async () => {
  const enqueue = (after) => rehearse((_, tx) => tx.enqueue("p", "k", null, { after }), [event("A")]);
  for (const wrong of [1e300, Infinity, NaN, -1]) {
    await assert.rejects(enqueue(wrong), /after is a number of seconds, a year at most/);
    assert.throws(() => new Failed("x", { again: wrong }), /again is false or a number of seconds, a year at most/);
  }
  assert.equal((await enqueue(86_400 * 365))[0].enqueue.after, 86_400 * 365);
});

test("what a handler of events returns is refused, not lost", async () => {
  const nothing = /a handler of events returns nothing; answers are given by tx/;
  await assert.rejects(rehearse(async () => "INSERT", [event("A")]), nothing);
  await assert.rejects(rehearse({ batch: () => [1] }, [event("A")]), nothing);
  assert.deepEqual(await rehearse(() => null, [event("A")]), []);
});
