// @ts-check
import { Failed, run } from "../../clients/typescript/src/index.js";

await run(async (event, tx) => {
  const seat = event.data.seat;
  if (!event.customer) throw new Failed("a wish needs a customer", { again: false });
  const taken = await tx.queryFirst("SELECT customer FROM seats WHERE seat = $1", seat);
  if (!taken) {
    tx.execute("INSERT INTO seats (seat, customer) VALUES ($1, $2)", seat, event.customer);
  } else if (taken.customer !== event.customer) {
    tx.append(`Customer:${event.customer}`, "SeatRefused", { seat });
  }
});
