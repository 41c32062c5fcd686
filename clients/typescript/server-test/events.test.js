/** Events by a server: appended, read, refused. */

import assert from "node:assert/strict";
import test from "node:test";
import { Decimal } from "anabranch";
import { Conflict, Invalid, NotAllowed, NotAuthenticated, NotFound, connect } from "anabranch/client";
import { Server, all, data, range } from "./serving.js";

test("they come back as they were given, with all digits", async (t) => {
  const client = (await Server.start(t)).connect();
  const given = {
    type: "OrderPlaced",
    data: { total: 2n ** 70n, price: new Decimal("0.12345678901234567890"), "ü": [null, "}],\\\""] },
    metadata: { by: "ada" },
    tags: ["customer:7", "shop:1"],
    tenant: "acme",
    customer: "7",
    correlation: "c",
    causation: "d",
    schemaVersion: 3,
    id: "018f7b86-0000-7000-8000-000000000001",
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  };
  const appended = await client.append("Order:a/b:c", given, { expected: "none" });
  assert.equal(appended.events[0].version, 1);
  const text = '{"total":1180591620717411303424,"price":0.12345678901234567890,"ü":[null,"}],\\\\\\""]}';
  const tail = client.tail({ after: 0 });
  t.after(() => tail.close());
  const [read] = await all(client.readStream("Order:a/b:c"));
  for (const event of [read, await client.event(given.id), (await tail.next()).value]) {
    assert.deepEqual([event.stream, event.version, event.position], ["Order:a/b:c", 1, appended.position]);
    for (const name of ["type", "metadata", "tags", "tenant", "customer", "correlation", "causation", "schemaVersion", "id"]) {
      assert.deepEqual(event[name], given[name], name);
    }
    assert.equal(event.data.total, given.data.total);
    assert.equal(String(event.data.price), String(given.data.price));
    assert.deepEqual([event.dataText, event.metadataText, event.masked], [text, '{"by":"ada"}', false]);
    assert.equal(event.traceparent, given.traceparent);
  }
});

test("pages are read to the end", async (t) => {
  const client = (await Server.start(t)).connect();
  for (const start of [0, 400, 800]) {
    const events = range(start, start + 400).map((n) => ({ type: n % 2 === 0 ? "Even" : "Odd", data: n }));
    await client.append("N:1", events);
  }
  const every = range(0, 1200);
  const backwards = every.toReversed();
  assert.deepEqual(await data(client.readStream("N:1")), every);
  assert.deepEqual(await data(client.readStream("N:1", { backwards: true })), backwards);
  assert.deepEqual(await data(client.readStream("N:1", { start: 1199 })), [1198, 1199]);
  assert.deepEqual(await data(client.read({ types: ["Odd"] })), every.filter((n) => n % 2 === 1));
  assert.deepEqual(await data(client.read({ limit: 700 })), every.slice(0, 700));
  assert.deepEqual(await data(client.read({ backwards: true, limit: 3 })), [1199, 1198, 1197]);
  const both = [{ types: ["Odd"] }, { types: ["Even"] }];
  assert.deepEqual(await data(client.query(both)), every);
  assert.deepEqual(await data(client.query(both, { after: 1150, limit: 2 })), [1150, 1151]);
  assert.deepEqual(await data(client.query(both, { backwards: true })), backwards);
  assert.deepEqual(await data(client.read({ categories: ["Other"] })), []);
});

test("conflicts and conditions say what a caller needs", async (t) => {
  const client = (await Server.start(t)).connect();
  await client.append("A:1", [{ type: "X" }, { type: "X" }]);
  await assert.rejects(client.append("A:1", { type: "X" }, { expected: 1 }), (error) => {
    assert.ok(error instanceof Conflict);
    assert.deepEqual([error.name, error.code, error.status], ["Conflict", "stream_conflict", 409]);
    const { stream, expected, actual } = error.members;
    assert.deepEqual([stream, expected, actual], ["A:1", 1, 2]);
    return true;
  });
  const query = [{ types: ["NameTaken"], tags: ["name:ada"] }];
  const taken = { type: "NameTaken", tags: ["name:ada"] };
  const claim = [{ stream: "User:1", events: taken, expected: "none" }, { stream: "Log:1", events: [{ type: "Seen" }] }];
  const first = await client.appendAll(claim, { unless: { query, after: 0 } });
  assert.deepEqual(first.events.map((event) => event.version), [1, 1]);
  const other = [{ stream: "User:2", events: [taken] }];
  await assert.rejects(client.appendAll(other, { unless: { query, after: 0 } }), (error) => {
    assert.deepEqual([error.code, error.members.position], ["condition_failed", first.events[0].position]);
    return true;
  });
  await client.appendAll(other, { unless: { query, after: first.position } });
});

test("problems are told apart", async (t) => {
  const server = await Server.start(t);
  for (const [token, kind, code] of [
    ["anb_wrong", NotAuthenticated, "not_authenticated"],
    [null, NotAuthenticated, "not_authenticated"],
    [server.makeToken("read"), NotAllowed, "not_allowed"],
  ]) {
    await assert.rejects(connect(server.proxy.url, token).append("A:1", { type: "X" }), (error) => {
      assert.ok(error instanceof kind);
      assert.equal(error.code, code);
      return true;
    });
  }
  const client = server.connect();
  await assert.rejects(client.event(99), (error) => error instanceof NotFound && error.code === "no_such_event");
  await assert.rejects(client.append("A:1", { type: "" }), (error) => error instanceof Invalid && error.status === 400);
  await assert.rejects(client.append("A:1", { type: "X", schemaversion: 2 }), /an event has no schemaversion/);
  assert.throws(() => client.readStream("Order:.."), /cannot be a part of a URL/);
  assert.deepEqual(await all(client.read()), []);
});

test("bodies are masked", async (t) => {
  const server = await Server.start(t);
  await server.connect().append("A:1", { type: "X", data: "secret" });
  const [event] = await all(connect(server.proxy.url, server.makeToken("read-masked")).read());
  assert.deepEqual([event.data, event.masked, event.dataText], [null, true, "null"]);
});

test("a server without tokens takes what is sent", async (t) => {
  const client = (await Server.start(t, { needsToken: false })).connect();
  await client.append("A:1", { type: "X", data: 1 });
  assert.deepEqual(await data(client.read()), [1]);
});
