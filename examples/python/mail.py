"""Sends mails: at least once, so each goes out under its idempotency key."""
import sys

from anabranch import Task, Tx, run_tasks


def handle(task: Task, tx: Tx) -> object:
    customer, cents = task.payload["customer"], task.payload["cents"]
    # Yours would call a mail server here, with the key in a header.
    print(f"to {customer}: you owe {cents / 100:.2f} [{task.idempotency_key}]", file=sys.stderr)
    return {"sent": True}


run_tasks(handle)
