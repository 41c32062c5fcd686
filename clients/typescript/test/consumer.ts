// A program as a user of the declarations writes it. It is checked, not run.
import { Abandoned, Decimal, Failed, run, runTasks, type Event, type Row, type Task, type Tx } from "anabranch";
import { Conflict, NoAnswer, connect, type Tail } from "anabranch/client";
import { event, rehearse, rehearseTask } from "anabranch/testing";

interface Placed {
  total: number;
  lines: { sku: string }[];
}

async function handle(event: Event<Placed>, tx: Tx): Promise<void> {
  const row = await tx.queryFirst<{ total: number }>("SELECT total FROM risk WHERE customer = $1", event.customer);
  const total: number = (row?.total ?? 0) + event.data.total;
  const rows: Row[] = await tx.query("SELECT a, b FROM t");
  for (const [a, b] of rows) tx.execute("x", a, b, rows[0][0], rows[0].anything);
  tx.execute("y", total, 12345678901234567890n, new Decimal("19.90"), new Date(), null, [1, 2], event.data.lines[0]);
  tx.append("Invoice:7", "InvoiceIssued", { total }, { expected: "none", tags: ["a:1"], schemaVersion: 2 });
  tx.enqueue("mail", "c-1", { total }, { after: 60, at: new Date(), unique: "u" });
  if (total < 0) throw new Failed("negative", { again: false, event });
  // @ts-expect-error: undefined is no value
  tx.execute("z", undefined);
  // @ts-expect-error: a text that is no version
  tx.append("Invoice:7", "InvoiceIssued", {}, { expected: "some" });
  // @ts-expect-error: there is no such field
  event.data.totl;
  // @ts-expect-error: events are not changed
  event.position = 1;
  // @ts-expect-error: the row may not be there
  row.total;
}

await run(handle);
await run((event, tx) => tx.execute("x", event.data.anything));
await run({
  async batch(events, tx) {
    for (const event of events) tx.forEvent(event).append("A:1", "Seen");
  },
});
await runTasks(async (task: Task<{ to: string }, number>, tx) => {
  const step: number = task.checkpoint ?? 0;
  await task.save(step + 1);
  tx.enqueue("next", task.key);
  return { sent: task.payload.to, key: task.idempotencyKey };
});
// @ts-expect-error: no handler
await run("handle");
// @ts-expect-error: what a handler of events returns is lost
await run(async () => "INSERT");

const said: any[] = await rehearse(handle, [event("OrderPlaced", { total: 1 }, { customer: "c-1" })], {
  answer: (sql, values) => (values.length > 0 ? [{ total: sql.length }] : []),
});
await rehearseTask((task) => task.payload, said, { checkpoint: 1 });
export const abandoned: Error = new Abandoned("lost");

const client = connect("http://127.0.0.1:7070", "anb_secret", { retryFor: 5 });
const appended = await client.append("Order:1", { type: "OrderPlaced", data: { total: 1n } }, { expected: "none" });
export const position: number = appended.events[0].position;
try {
  const query = [{ types: ["Taken"], tags: ["name:a"] }];
  await client.appendAll([{ stream: "Name:a", events: [{ type: "Taken" }] }], { unless: { query, after: 0 } });
} catch (error) {
  if (error instanceof Conflict && error.code === "condition_failed") throw error.members.position;
  if (error instanceof NoAnswer && error.mayHaveHappened) throw error.idempotencyKey;
}
for await (const event of client.readStream<Placed>("Order:1", { limit: 10 })) event.data.total.toFixed();
const tail: Tail<Placed> = client.tail({ after: 0, types: ["OrderPlaced"], onInterrupted: (error) => error.message });
for await (const event of tail) export_(event.dataText, event.data.lines, tail.position);
declare function export_(...given: unknown[]): void;
const task = await client.wait<{ sent: number }>(await client.enqueue("mail", "c-1", {}, { after: 5 }), { timeout: 9 });
if (task.state === "done") task.result?.sent.toFixed();
const done = await client.waitForCommand(await client.sendCommand("counters", "a", { Add: 1 }));
const plan = await client.apply(await client.plan({ do: "pause", consumer: "totals" }));
for await (const entry of client.journal({ plan })) export_(entry.who, done.version, plan.counts.keys);
// @ts-expect-error: an event has a type
await client.append("Order:1", { data: 1 });
// @ts-expect-error: there is no such option
client.tail({ from: 1 });
// @ts-expect-error: connect makes clients
new (await import("anabranch/client")).Client();
