/** Tails of a server that is killed, stopped and cut off: no gap, no double. */

import assert from "node:assert/strict";
import test from "node:test";
import { Conflict, Dropped, NotAuthenticated, connect } from "anabranch/client";
import { Server, data, range, until } from "./serving.js";

async function append(client, numbers) {
  for (const n of numbers) await client.append("N:1", { type: n % 2 === 0 ? "Even" : "Odd", data: n });
}

/** The next so many. */
async function take(tail, count) {
  const got = [];
  while (got.length < count) got.push((await tail.next()).value.data);
  return got;
}

test("it goes on when the server is killed", async (t) => {
  const server = await Server.start(t);
  const client = server.connect();
  const why = [];
  const tail = server.connect().tail({ onInterrupted: (error) => why.push(error) });
  t.after(() => tail.close());
  assert.equal(await tail.open(), 0);
  const appending = append(client, range(0, 150));
  const got = [];
  while (got.length < 150) {
    got.push(...(await take(tail, 1)));
    if ([20, 60, 100].includes(got.length)) {
      // In the middle of appends and of the tail.
      await server.stop("SIGKILL");
      await server.start();
    }
  }
  await appending;
  assert.deepEqual(got, range(0, 150));
  assert.ok(why.length >= 3);
  await client.append("N:1", { type: "Last", data: "last" });
  assert.deepEqual(await take(tail, 1), ["last"]);
});

test("it goes on wherever it is cut off", async (t) => {
  const server = await Server.start(t);
  await append(server.connect(), range(0, 40));
  // Before and in the head of the answer, and in the middle of events.
  const cuts = [1, 100, 250, ...range(0, 24).map((n) => 700 + 29 * n)];
  const why = [];
  const tail = connect(server.proxy.url, server.token).tail({ after: 0, onInterrupted: (error) => why.push(error) });
  t.after(() => tail.close());
  server.proxy.cuts = cuts;
  server.proxy.disconnect();
  assert.deepEqual(await take(tail, 40), range(0, 40));
  assert.ok(why.length > 15, `${why.length} interruptions`);
});

test("it is told that the server stops", async (t) => {
  const server = await Server.start(t);
  const why = [];
  const tail = server.connect().tail({ onInterrupted: (error) => why.push(error) });
  t.after(() => tail.close());
  await tail.open();
  const again = server.stop("SIGTERM").then(() => server.start()).then(() => append(server.connect(), [0]));
  assert.deepEqual(await take(tail, 1), [0]);
  await again;
  assert.deepEqual(why.filter((error) => error instanceof Dropped).map((error) => error.reason), ["server_stops"]);
});

test("another process goes on where one has ended", async (t) => {
  const client = (await Server.start(t)).connect();
  await append(client, range(0, 10));
  const first = client.tail({ after: 0 });
  const got = [];
  for await (const event of first) if (got.push(event.data) === 4) break;
  // Leaving the loop has closed it.
  assert.deepEqual(await first.next(), { done: true, value: undefined });
  const second = client.tail({ after: first.position });
  t.after(() => second.close());
  assert.deepEqual([...got, ...(await take(second, 6))], range(0, 10));
});

test("only what is wanted comes", async (t) => {
  const client = (await Server.start(t)).connect();
  const tail = client.tail({ types: ["Odd"], categories: ["N"] });
  t.after(() => tail.close());
  assert.equal(await tail.open(), 0);
  await append(client, range(0, 6));
  // Asked for at the same time, they come one after the other.
  const [a, b, c] = await Promise.all([tail.next(), tail.next(), tail.next()]);
  assert.deepEqual([a.value.data, b.value.data, c.value.data], [1, 3, 5]);
});

test("it ends when it is closed, while it waits for an event or for a server", async (t) => {
  const server = await Server.start(t);
  const client = server.connect();
  const tail = client.tail();
  await tail.open();
  const waiting = data(tail);
  await append(client, [0]);
  await until("it has come", () => tail.position === 1);
  tail.close();
  assert.deepEqual(await waiting, [0]);
  await server.stop();
  const why = [];
  const lonely = client.tail({ after: 0, onInterrupted: (error) => why.push(error) });
  const nothing = data(lonely);
  await until("it has tried", () => why.length > 1);
  lonely.close();
  assert.deepEqual(await nothing, []);
});

test("what will not pass is thrown", async (t) => {
  const server = await Server.start(t);
  await assert.rejects(connect(server.proxy.url, "anb_wrong").tail().next(), NotAuthenticated);
  const beyond = server.connect().tail({ after: 10_000 });
  await assert.rejects(beyond.next(), (error) => error instanceof Conflict && error.code === "log_fell_back");
});
