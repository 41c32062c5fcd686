/** What is sent again, and what never is. */

import assert from "node:assert/strict";
import test from "node:test";
import { Conflict, NoAnswer } from "anabranch/client";
import { Server, all, data, until } from "./serving.js";

test("an append whose answer is lost is there once", async (t) => {
  const server = await Server.start(t);
  const client = server.connect();
  for (const [lost, passes] of [[1, 0], [3, 0], [2, 20], [1, 150]]) {
    const before = await data(client.read());
    Object.assign(server.proxy, { loses: lost, passes });
    const [first, second] = [before.length, before.length + 1];
    const appended = await client.append("A:1", [{ type: "X", data: first }, { type: "X", data: second }]);
    assert.equal(server.proxy.loses, 0);
    assert.deepEqual(await data(client.read()), [...before, first, second]);
    assert.equal(appended.events[1].version, before.length + 2);
  }
  assert.equal(server.proxy.lost, 7);
});

test("expectations hold for one that was stored already", async (t) => {
  const server = await Server.start(t);
  const client = server.connect();
  server.proxy.loses = 1;
  assert.equal((await client.append("A:1", { type: "X" }, { expected: "none" })).events[0].version, 1);
  server.proxy.loses = 1;
  assert.equal((await client.append("A:1", { type: "X" }, { expected: 1 })).events[0].version, 2);
  await assert.rejects(client.append("A:1", { type: "X" }, { expected: 1 }), Conflict);
  // What the first request has stored matches the condition of the second.
  server.proxy.loses = 1;
  const unless = { query: [{ types: ["Taken"], tags: ["name:ada"] }], after: 0 };
  const taken = [{ stream: "User:1", events: { type: "Taken", tags: ["name:ada"] } }];
  const stored = await client.appendAll(taken, { unless });
  assert.deepEqual((await all(client.read({ types: ["Taken"] }))).map((event) => event.id), [stored.events[0].id]);
  await assert.rejects(client.appendAll(taken, { unless }), Conflict);
});

test("tasks and commands are enqueued once", async (t) => {
  const server = await Server.start(t);
  const client = server.connect();
  server.proxy.loses = 1;
  // Its first request was carried out, and its second one found that.
  assert.equal((await client.enqueue("p", "k", 1)).isNew, false);
  server.proxy.loses = 1;
  const sent = await client.sendCommand("counters", "a", { Add: 1 });
  assert.equal(sent.isNew, false);
  assert.equal((await client.task(sent.id)).state, "ready");
});

test("a key of one's own makes two calls one, and who gives up is told the key", async (t) => {
  const server = await Server.start(t);
  const client = server.connect();
  for (const isNew of [true, false]) {
    const appended = await client.append("A:1", { type: "X", data: 1 }, { idempotencyKey: "order-17" });
    assert.equal(appended.events[0].version, 1);
    assert.equal((await client.enqueue("p", "k", 1, { idempotencyKey: "order-17" })).isNew, isNew);
  }
  const other = client.append("A:1", { type: "X", data: 9 }, { idempotencyKey: "order-17" });
  await assert.rejects(other, (error) => error instanceof Conflict && error.code === "id_reused");
  server.proxy.loses = 1;
  const hasty = server.connect({ retryFor: 0 });
  const lost = await hasty.append("A:1", { type: "X", data: 2 }).then(assert.fail, (error) => error);
  assert.ok(lost instanceof NoAnswer && lost.mayHaveHappened && lost.message.includes(lost.idempotencyKey));
  await hasty.append("A:1", { type: "X", data: 2 }, { idempotencyKey: lost.idempotencyKey });
  assert.deepEqual(await data(client.read()), [1, 2]);
});

test("it waits for a server that is away", async (t) => {
  const server = await Server.start(t);
  const client = server.connect();
  await client.append("A:1", { type: "X", data: 1 });
  await server.stop();
  const { came } = server.proxy;
  const appending = client.append("A:1", { type: "X", data: 2 });
  await until("it has tried three times", () => server.proxy.came >= came + 3);
  await server.start();
  await appending;
  assert.deepEqual(await data(client.read()), [1, 2]);
  await server.stop();
  await assert.rejects(server.connect({ retryFor: 0.2 }).append("A:1", { type: "X" }), NoAnswer);
});

test("what has no key is sent once", async (t) => {
  const server = await Server.start(t);
  const client = server.connect();
  for (const call of [() => client.plan({ do: "pause", consumer: "c" }), () => client.apply("x")]) {
    server.proxy.loses = 1;
    const lost = await call().then(assert.fail, (error) => error);
    assert.ok(lost instanceof NoAnswer && lost.idempotencyKey === null);
  }
  assert.deepEqual([server.proxy.came, server.proxy.lost], [2, 2]);
});
