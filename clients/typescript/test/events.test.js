/** Batches of events: statements, queries, events, tasks. */

import assert from "node:assert/strict";
import fs from "node:fs";
import test from "node:test";
import { event, start } from "./engine.js";

const UPSERT = `
  await run(async (event, tx) => {
    if (event.type !== "OrderPlaced") return;
    tx.execute("INSERT INTO totals VALUES ($1, $2)", event.streamId, event.data.total);
    tx.execute("DELETE FROM drafts");
  });
`;

test("the greeting names the client and the version", async (t) => {
  const program = await start(t, UPSERT, { greet: false });
  const { hello } = await program.greet({ more: "ignored" });
  assert.equal(hello.protocol, 1);
  const { version } = JSON.parse(fs.readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  assert.equal(hello.client, `anabranch-typescript ${version}`);
});

for (const sockets of [false, true]) {
  test(`batches one after the other, over ${sockets ? "sockets" : "pipes"}`, async (t) => {
    const program = await start(t, UPSERT, { sockets });
    program.batch(1, event("OrderPlaced", { total: 40 }, { stream: "Order:a:b" }), event("Other"));
    const insert = { execute: "INSERT INTO totals VALUES ($1, $2)", values: ["a:b", 40], event: 0 };
    const deleted = { execute: "DELETE FROM drafts", values: [], event: 0 };
    assert.deepEqual(await program.hearAll(), [insert, deleted, { done: 1 }]);
    program.batch(2, event("Other"), event("OrderPlaced", { total: 1 }, { stream: "Order:b" }));
    const second = [{ ...insert, values: ["b", 1], event: 1 }, { ...deleted, event: 1 }, { done: 2 }];
    assert.deepEqual(await program.hearAll(), second);
    program.batch(3);
    assert.deepEqual(await program.hearAll(), [{ done: 3 }]);
    assert.equal(await program.end(), 0);
    assert.equal(program.log(), "");
  });
}

test("the fields of an event", async (t) => {
  const program = await start(
    t,
    `await run((e, tx) => tx.execute("x", e.position, e.stream, e.category, e.streamId, e.version, e.id, e.type,
      e.schemaVersion, e.data, e.metadata, e.correlation, e.causation, e.tenant, e.customer, e.tags, e.recordedAt,
      e.place, tx.database, tx.consumer))`,
  );
  const envelope = { stream: "Order:x", position: 7, version: 3, metadata: { a: 1 }, correlation: "co", causation: "ca" };
  const more = { tenant: "te", customer: "cu", tags: ["t:1"], schema_version: 2, recorded_at: "2026-11-15T09:16:47.4451Z" };
  const whole = event("T", [1], { ...envelope, ...more });
  program.batch(1, event("T"), whole);
  const [first, second] = await program.hearAll();
  assert.deepEqual(second.values, [
    ...[7, "Order:x", "Order", "x", 3, whole.id, "T", 2, [1], { a: 1 }, "co", "ca", "te", "cu", ["t:1"]],
    ...["2026-11-15T09:16:47.4451Z", 1, "sqlite", "risk"],
  ]);
  assert.deepEqual(first.values.slice(9, 15), [null, null, null, null, null, []]);
});

test("a query is written at once, with what was before it", async (t) => {
  const program = await start(
    t,
    `await run(async (event, tx) => {
      tx.execute("first");
      const rows = await tx.query("SELECT a, b FROM t WHERE id = $1", event.streamId);
      const [row] = rows;
      const [a, b] = row;
      tx.execute("second", row[0], row.b, a + b, rows.length, Object.keys(row), { ...row }, row[2] === undefined);
      tx.execute("third", (await tx.queryFirst("none")) === undefined, (await tx.queryFirst("some")).n);
    })`,
  );
  program.batch(1, event("T", null, { stream: "A:1" }));
  assert.equal((await program.hear()).execute, "first");
  assert.deepEqual(await program.hear(), { query: "SELECT a, b FROM t WHERE id = $1", values: ["1"], event: 0 });
  program.say({ columns: ["a", "b"], rows: [[1, 2]] });
  assert.deepEqual((await program.hear()).values, [1, 2, 3, 1, ["a", "b"], { a: 1, b: 2 }, true]);
  assert.equal((await program.hear()).query, "none");
  program.say({ columns: ["n"], rows: [] });
  assert.equal((await program.hear()).query, "some");
  program.say({ columns: ["n", "n", "__proto__", "0"], rows: [[5, 6, {}, 0], [7, 8, {}, 0]] });
  assert.deepEqual((await program.hear()).values, [true, 5]);
  assert.deepEqual(await program.hear(), { done: 1 });
});

test("queries that are asked together are answered in turn", async (t) => {
  const program = await start(
    t,
    `await run(async (event, tx) => {
      const one = tx.query("one");
      tx.execute("between");
      const two = tx.query("two");
      tx.execute("after");
      const [[a], [b]] = await Promise.all([one, two]);
      tx.execute("last", a.n, b.n);
    })`,
  );
  program.batch(1, event("A"));
  assert.equal((await program.hear()).query, "one");
  program.say({ columns: ["n"], rows: [[1]] });
  assert.equal((await program.hear()).execute, "between");
  assert.equal((await program.hear()).query, "two");
  program.say({ columns: ["n"], rows: [[2]] });
  const [after, last] = await program.hearAll();
  assert.equal(after.execute, "after");
  assert.deepEqual(last.values, [1, 2]);
  // After an abandoned one the other is not written: the next batch would take it for an answer.
  program.batch(2, event("A"));
  assert.equal((await program.hear()).query, "one");
  program.say({ abandoned: 2, error: "lost" });
  program.batch(3);
  assert.deepEqual(await program.hear(), { done: 3 });
  assert.equal(program.unread, "");
});

test("append and enqueue", async (t) => {
  const program = await start(
    t,
    `await run((event, tx) => {
      tx.append("Invoice:7", "InvoiceIssued", { total: 1 });
      tx.append("Invoice:8", "InvoiceIssued", null, { expected: "none", schemaVersion: 2, metadata: { m: 1 },
        correlation: "co", causation: "ca", tenant: "te", customer: "cu", tags: ["a:1"], id: "00000000-0000-0000-0000-000000000005" });
      tx.append("Invoice:9", "InvoiceIssued", undefined, { expected: 0 });
      tx.enqueue("mail", "c-1", { to: "x" });
      tx.enqueue("mail", "c-1", undefined, { after: 60, unique: "u" });
      tx.enqueue("mail", "c-1", null, { at: new Date(0) });
    })`,
  );
  program.batch(1, event("A"));
  const said = await program.hearAll();
  const issued = { type: "InvoiceIssued", data: null };
  const context = { metadata: { m: 1 }, correlation: "co", causation: "ca", tenant: "te", customer: "cu", tags: ["a:1"] };
  const id = "00000000-0000-0000-0000-000000000005";
  const mail = { pool: "mail", key: "c-1", payload: null };
  assert.deepEqual(said, [
    { append: { ...issued, stream: "Invoice:7", data: { total: 1 } }, event: 0 },
    { append: { ...issued, stream: "Invoice:8", expected: "none", schema_version: 2, ...context, id }, event: 0 },
    { append: { ...issued, stream: "Invoice:9", expected: 0 }, event: 0 },
    { enqueue: { ...mail, payload: { to: "x" } }, event: 0 },
    { enqueue: { ...mail, after: 60, unique: "u" }, event: 0 },
    { enqueue: { ...mail, at: "1970-01-01T00:00:00.000000Z" }, event: 0 },
    { done: 1 },
  ]);
});

test("traces", async (t) => {
  const program = await start(
    t,
    `await run((event, tx) => {
      tx.append("Seen:1", "Seen", event.traceparent);
      for (const traceparent of [event.traceparent ?? undefined, "00-1-2-01", "00-" + "0".repeat(32) + "-b7ad6b7169203331-01", 7]) {
        try {
          tx.append("Seen:1", "Seen", null, { traceparent });
          tx.enqueue("mail", "c-1", null, { traceparent });
        } catch (error) {
          tx.execute("x", error.message);
        }
      }
    })`,
  );
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  program.batch(1, { ...event("A"), traceparent });
  const said = await program.hearAll();
  // Without one of its own nothing is said: Anabranch goes on with that of the event.
  assert.deepEqual(said[0].append, { stream: "Seen:1", type: "Seen", data: traceparent });
  assert.deepEqual([said[1].append.traceparent, said[2].enqueue.traceparent], [traceparent, traceparent]);
  assert.ok(said.slice(3, 6).every((message) => /W3C trace context/.test(message.values[0])));
  program.batch(2, event("A"));
  assert.equal((await program.hear()).append.data, null);
});

test("whole batches", async (t) => {
  const program = await start(
    t,
    `await run({ async batch(events, tx) {
      tx.execute("all", events.length);
      for (const event of events) tx.forEvent(event).append("A:1", "Seen", event.data);
      tx.execute("end");
      if (events.length === 1) tx.append("A:1", "Seen");
      if (events.length === 3) throw new Failed("the second", { event: events[1] });
    } })`,
  );
  program.batch(1, event("A", 1), event("A", 2));
  const said = await program.hearAll();
  assert.deepEqual(said[0], { execute: "all", values: [2] });
  assert.deepEqual(said.map((it) => it.event), [undefined, 0, 1, undefined, undefined]);
  program.batch(2, event("A", 1));
  const [failed] = await program.hearAll();
  assert.ok(!("event" in failed));
  assert.match(failed.error, /tx\.forEvent\(event\)/);
  program.batch(3, event("A"), event("A"), event("A"));
  assert.deepEqual(await program.hearAll(), [{ failed: 3, event: 1, error: "the second" }]);
});

test("a large batch", async (t) => {
  const program = await start(t, UPSERT);
  const text = "x".repeat(100);
  const events = Array.from({ length: 20_000 }, (_, n) =>
    event("OrderPlaced", { total: n, text }, { stream: `Order:${n}` }),
  );
  program.batch(1, ...events);
  const said = await program.hearAll();
  assert.equal(said.length, 40_001);
  assert.deepEqual(said.at(-3), { execute: said[0].execute, values: ["19999", 19999], event: 19999 });
  assert.equal(await program.end(), 0);
});

test("many statements are told apart", async (t) => {
  const program = await start(
    t,
    "await run((event, tx) => { for (let n = 0; n < 3000; n++) tx.execute(`statement ${n}`); })",
  );
  program.batch(1, event("A"));
  const said = await program.hearAll();
  assert.deepEqual(said.slice(0, -1).map((it) => it.execute), Array.from({ length: 3000 }, (_, n) => `statement ${n}`));
});
