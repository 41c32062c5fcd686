"""Watches what each customer owes, and flags who owes too much: once."""
from anabranch import Event, Tx, run

LIMIT = 100_000


def handle(event: Event, tx: Tx) -> None:
    cents = event.data["cents"] if event.type == "OrderPlaced" else -event.data["cents"]
    row = tx.query_first("SELECT cents, flagged FROM risk WHERE customer = $1", event.customer)
    owes, flagged = row if row else (0, 0)
    owes += cents
    if owes > LIMIT and not flagged:
        flagged = 1
        tx.append(f"Customer:{event.customer}", "CustomerFlagged", {"cents": owes})
        tx.enqueue("mail", event.customer, {"customer": event.customer, "cents": owes})
    tx.execute(
        "INSERT INTO risk (customer, cents, flagged) VALUES ($1, $2, $3) "
        "ON CONFLICT (customer) DO UPDATE SET cents = excluded.cents, flagged = excluded.flagged",
        event.customer, owes, flagged,
    )


if __name__ == "__main__":
    run(handle)
