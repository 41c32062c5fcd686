/** The client against a server that is played by the test, and behaves as proxies and failing servers do. */

import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import test from "node:test";
import { Conflict, Dropped, NoAnswer, NotTheApi, Problem, Unavailable, connect } from "anabranch/client";
import { Frames } from "../src/client/frames.js";
import { items, members } from "../src/client/slices.js";
import { parse } from "../src/parse.js";

const PROBLEM = "application/problem+json";
const SSE = "text/event-stream";
const EMPTY = { items: [], next: null };

function answer(status, body, kind = "application/json", headers = {}) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { status, text, headers: { "content-type": kind, ...headers } };
}

/** Gives these answers, one after the other. A stream stays open if it is the last one. */
async function play(t, ...answers) {
  const seen = [];
  const server = http.createServer((request, response) => {
    request.resume();
    seen.push(request);
    const { status, text, headers } = answers.shift();
    response.writeHead(status, headers);
    if (headers["content-type"] !== SSE) return void response.end(text);
    response.flushHeaders();
    response.write(text);
    if (answers.length > 0) response.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${server.address().port}/mounted/`;
  return { url, seen, answers, client: (options) => connect(url, "anb_secret", options) };
}

async function read(client) {
  const found = [];
  for await (const event of client.read()) found.push(event);
  return found;
}

test("what passes by itself is waited for", async (t) => {
  const away = answer(503, { code: "unavailable", detail: "away" }, PROBLEM, { "retry-after": "0" });
  const busy = answer(429, { code: "too_many_requests" }, PROBLEM);
  const played = await play(t, away, busy, answer(502, "<html>", "text/html"), answer(200, EMPTY));
  assert.deepEqual(await read(played.client()), []);
  assert.equal(played.seen.length, 4);
  played.answers.push(answer(503, { code: "unavailable" }, PROBLEM, { "retry-after": "60" }));
  const refused = await read(played.client({ retryFor: 5 })).then(assert.fail, (error) => error);
  assert.ok(refused instanceof Unavailable);
  assert.deepEqual([refused.code, refused.retryAfter], ["unavailable", 60]);
});

test("an append keeps its key, and other problems are final", async (t) => {
  const stored = { events: [{ id: "x", version: 1, position: 1 }], position: 1 };
  const played = await play(t, answer(503, {}, PROBLEM), answer(200, stored));
  const client = played.client();
  assert.deepEqual(await client.append("A:1", { type: "X" }), stored);
  const [first, again] = played.seen.map((request) => request.headers["idempotency-key"]);
  assert.ok(first);
  assert.equal(first, again);
  assert.equal(played.seen[0].url, "/mounted/v1/append");
  played.answers.push(answer(500, { code: "database_error", detail: "no" }, PROBLEM));
  await assert.rejects(client.append("A:1", { type: "X" }), (error) => error.code === "database_error" && error.status === 500);
  played.answers.push(answer(409, { code: "stream_conflict", actual: 7 }, PROBLEM));
  await assert.rejects(client.append("A:1", { type: "X" }), (error) => {
    assert.ok(error instanceof Conflict && error instanceof Problem);
    assert.deepEqual(error.members, { actual: 7 });
    return true;
  });
});

test("what was not waited for may have happened", async (t) => {
  const played = await play(t);
  const client = played.client();
  const said = { code: "request_too_slow", detail: "it did not finish in 30 s" };
  const slow = answer(503, said, PROBLEM, { "retry-after": "2" });
  for (const unanswered of [slow, answer(502, "<html>", "text/html"), answer(504, "<html>", "text/html")]) {
    const before = played.seen.length;
    played.answers.push(unanswered);
    const sentOnce = await client.apply("0199d3a0-5f5e-7c3a-9d0e-6a1f6c1f0a11").then(assert.fail, (error) => error);
    assert.ok(sentOnce instanceof NoAnswer && sentOnce.mayHaveHappened);
    assert.equal(played.seen.length, before + 1, "it has no key, so it is not sent again");
    const stored = { events: [{ id: "x", version: 1, position: 1 }], position: 1 };
    played.answers.push(unanswered, answer(200, stored));
    assert.deepEqual(await client.append("A:1", { type: "X" }), stored);
    const away = answer(503, { code: "unavailable", detail: "away" }, PROBLEM, { "retry-after": "60" });
    played.answers.push(unanswered, away);
    const givenUp = await client.append("A:1", { type: "X" }).then(assert.fail, (error) => error);
    assert.ok(givenUp instanceof NoAnswer && givenUp.mayHaveHappened);
    const keys = played.seen.slice(-2).map((request) => request.headers["idempotency-key"]);
    assert.deepEqual(keys, [givenUp.idempotencyKey, givenUp.idempotencyKey]);
  }
});

test("what is not the API is called so", async (t) => {
  const played = await play(t);
  for (const [other, said] of [
    [answer(200, "<html>", "text/html"), /text\/html/],
    [answer(302, "", "text/html", { location: "https://elsewhere.example/" }), /elsewhere/],
    [answer(200, "{"), /cannot be read/],
  ]) {
    played.answers.push(other);
    await assert.rejects(read(played.client()), (error) => error instanceof NotTheApi && said.test(error.message));
  }
  assert.equal(played.seen.length, 3, "a redirect is not followed: the token is for this server");
  played.answers.push(answer(418, "no", "text/plain"));
  await assert.rejects(read(played.client()), (error) => error.code === "http_418");
});

test("wrong URLs and tokens are refused at once", () => {
  for (const url of ["127.0.0.1:7070", "ftp://x", "http://", "http://u:p@x", "http://x?y"]) {
    assert.throws(() => connect(url), TypeError);
  }
  for (const token of ["anb_x\n", "anb_ü", ""]) {
    assert.throws(() => connect("http://x", token), (error) => !error.message.includes("anb_"));
  }
});

function frame(position, data) {
  return `id: ${position}\nevent: event\ndata: ${JSON.stringify({ position, data })}\n\n`;
}

/** What a tail hands out, until the last event. */
async function follow(t, ...frames) {
  const played = await play(t, ...frames.map((text) => answer(200, text, SSE)));
  const [why, found] = [[], []];
  const tail = played.client().tail({ after: 1, silence: 0.3, onInterrupted: (error) => why.push(error) });
  for await (const event of tail) {
    found.push([event.position, event.data]);
    if (event.data === "last") break;
  }
  return { found, why, ids: played.seen.map((request) => request.headers["last-event-id"]) };
}

test("a dropped tail goes on after its last id", async (t) => {
  const dropped = 'id: 8\nevent: dropped\ndata: {"reason": "too_slow", "detail": "slow"}\n\n';
  const { found, why, ids } = await follow(
    t,
    frame(5, "a") + dropped,
    `${frame(8, "double")}: heartbeat\nid: 12\n\n${frame(20, "half").slice(0, -1)}`,
    frame(20, "half") + frame(21, "last"),
  );
  assert.deepEqual(found, [[5, "a"], [20, "half"], [21, "last"]]);
  assert.deepEqual(ids, ["1", "8", "12"]);
  assert.deepEqual(why.map((error) => error.constructor), [Dropped, NoAnswer]);
  assert.equal(why[0].reason, "too_slow");
});

test("a tail without a word is lost", async (t) => {
  const played = await play(t, answer(200, ": hello\n\n", SSE));
  const why = [];
  const onInterrupted = (error) => {
    why.push(error);
    played.answers.push(answer(200, frame(2, "last"), SSE));
  };
  const tail = played.client().tail({ after: 1, silence: 0.1, onInterrupted });
  assert.equal((await tail.next()).value.data, "last");
  tail.close();
  assert.equal(why.length, 1);
  assert.match(why[0].message, /not a word for 0\.1 seconds/);
});

test("an event that cannot be sent ends the tail", async (t) => {
  const last = 'id: 8\nevent: dropped\ndata: {"reason": "unwritable", "code": "invalid_json", "detail": "x"}\n\n';
  await assert.rejects(follow(t, last), (error) => error instanceof Problem && error.code === "invalid_json");
});

test("frames come out whole however they are cut", () => {
  const text = ': hello\n\nid: 1\r\nevent: event\r\ndata: {"ü":\r\ndata: 1}\r\n\r\n: heartbeat\nid: 7\n\ndata\n\nevent: x\n\n';
  const whole = [{ id: "1", name: "event", data: '{"ü":\n1}' }, { id: "7", name: null, data: "" }];
  for (const size of [1, 2, 3, 7, text.length]) {
    const frames = new Frames();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...frames.feed(text.slice(at, at + size)));
    assert.deepEqual(found, whole, String(size));
  }
});

test("parts of JSON are cut out as they are written", () => {
  const values = ["1.50", '"a\\"}],"', "[ ]", "{ }", '[1,{"b":[2,"]"]},3]', '{"x": "\\\\", "y":{"z":null}}', "null", "true", "-1e5"];
  const names = ["a", 'b"', "ü", "\\u0041", "{", "", " ", "[", ":"];
  const pairs = values.map((value, n) => `${JSON.stringify(names[n])} : ${value}`);
  const found = members(` { ${pairs.join(" , ")} } `);
  values.forEach((value, n) => assert.equal(found.get(names[n]), value));
  assert.deepEqual(items(`[${values.join(",\n")}]`), values);
  assert.deepEqual(items(" [ ] "), []);
  assert.deepEqual([...members("{}")], []);
  for (const wrong of ["", "[", "[1", "[1,", "[1 2]", '["a]', "[}", "{]", '{"a"}', '{"a":}', "{1:2}", "7", '[{"a":1]']) {
    assert.throws(() => [items, members].map((cut) => cut(wrong)), SyntaxError, wrong);
  }
  // As many as the parser finds, and each of them as the parser reads it.
  const list = JSON.stringify([values, names, pairs, { values, names }]);
  assert.deepEqual(items(list).map((text) => parse(text)), parse(list));
});
