/** Values arrive with all their digits, both ways. */

import assert from "node:assert/strict";
import test from "node:test";
import { Decimal } from "anabranch";
import { event, start } from "./engine.js";
import { parse } from "../src/parse.js";
import { encode } from "../src/values.js";

const ECHO = `await run((event, tx) => {
  const kind = event.data?.constructor?.name ?? "null";
  tx.execute("x", event.data, [event.data], kind);
})`;

test("numbers and texts of events", async (t) => {
  const program = await start(t, ECHO);
  for (const [data, kind, value = data] of [
    ["123456789012345678901234567890", "BigInt"],
    ["-9007199254740993", "BigInt"],
    ["9007199254740991", "Number"],
    ["0.1", "Number"],
    ["0.30000000000000004", "Number"],
    ["1e+300", "Number"],
    ["12345678901234567890.12", "Decimal", '"12345678901234567890.12"'],
    ["1e400", "Decimal", '"1e400"'],
    ['"ä \u{1f600} \\" \\\\ \\n :12345678901234567890"', "String"],
    ["true", "Boolean"],
    ["null", "null"],
    ['{"ключ":[1,"ü",12345678901234567890]}', "Object"],
  ]) {
    program.raw(`{"batch":1,"events":[{"stream":"A:1","type":"T","data":${data}}]}\n`);
    assert.equal(await program.line(), `{"execute":"x","values":[${value},[${data}],"${kind}"],"batch":1,"event":0}`);
    assert.deepEqual(await program.hear(), { done: 1 });
  }
});

test("rows keep their digits", async (t) => {
  const program = await start(t, "await run(async (event, tx) => tx.execute('$1', [...await tx.queryFirst('q')]))");
  program.batch(1, event("A"));
  await program.hear();
  program.raw('{"columns":["a","b"],"rows":[[9223372036854775807,0.12345678901234567890]]}\n');
  assert.equal(await program.line(), '{"execute":"$1","values":[[9223372036854775807,0.12345678901234567890]],"batch":1,"event":0}');
});

test("a number that a double would change is told from one that it has", () => {
  const exact = ["0", "-0.0", "1.50", "123456.7000000000000000", "1E5", "5e-324", "0.1000000000000000000", "1e22"];
  for (const token of exact) assert.equal(typeof parse(`[${token}]`)[0], "number", token);
  const changed = ["0.1234567890123456789", "1e-400", "-1.7976931348623159e308", "9007199254740993.0", "1.00000000000000001"];
  for (const token of changed) {
    const value = parse(`{"a": [1,${token} ]}`).a[1];
    assert.ok(value instanceof Decimal, token);
    assert.equal(encode([value]), `[${token}]`);
  }
  assert.equal(parse("[-9007199254740992]")[0], -9007199254740992n);
  for (const wrong of ["[1.2.3456789012345678]", "[12345678901234567890-]", "[01234567890123456789]", '[:1234567890123456789']) {
    assert.throws(() => parse(wrong), SyntaxError, wrong);
  }
});

test("texts that look like numbers stay texts", () => {
  const texts = { "a,12345678901234567890": ['\\",[12345678901234567890', " 1e999", ":0.12345678901234567890"], n: 1 };
  assert.deepEqual(parse(JSON.stringify(texts)), texts);
  const both = JSON.stringify(texts).replace(/1}$/, "12345678901234567891}");
  assert.deepEqual(parse(both), { ...texts, n: 12345678901234567891n });
  assert.deepEqual(Object.keys(parse('{"__proto__":12345678901234567891}')), ["__proto__"]);
});

test("decimals do not take part in arithmetic", () => {
  const price = new Decimal("19.90");
  assert.equal(`${price}`, "19.90");
  assert.equal(JSON.stringify({ price }), '{"price":"19.90"}');
  assert.throws(() => price + 1, /19\.90 has more digits than a number/);
  assert.throws(() => price > 1, TypeError);
  for (const wrong of ["", "1,5", "abc", "NaN", ".5", "01", 1.5]) assert.throws(() => new Decimal(wrong), TypeError);
});

test("values of a handler", async (t) => {
  const program = await start(
    t,
    `class Point { constructor() { this.x = 1; this.y = undefined; } }
    await run((event, tx) => tx.execute("x", new Decimal("0.10"), [new Decimal("1.50")], 2n ** 70n, -0.5, 1e21, [1, null],
      { a: true, b: undefined }, new Date(Date.UTC(2026, 0, 2, 3)), new Point(), { toJSON: () => "json" }, -0))`,
  );
  program.batch(1, event("A"));
  const values =
    '"0.10",[1.50],1180591620717411303424,-0.5,1e+21,[1,null],{"a":true},"2026-01-02T03:00:00.000000Z",{"x":1},"json",0';
  assert.equal(await program.line(), `{"execute":"x","values":[${values}],"batch":1,"event":0}`);
});
