"""Batches of events: statements, queries, events, tasks."""

import os

from tests.engine import HERE, Conversation, event

UPSERT = """
    from anabranch import Event, Tx, run

    def handle(event: Event, tx: Tx) -> None:
        if event.type == "OrderPlaced":
            tx.execute("INSERT INTO totals VALUES ($1, $2)", event.stream_id, event.data["total"])
            tx.execute("DELETE FROM drafts")

    run(handle)
"""


class Events(Conversation):
    def test_greeting_names_the_client_and_the_version(self) -> None:
        program = self.start(UPSERT, greet=False)
        hello = program.greet(more="ignored")["hello"]
        self.assertEqual(hello["protocol"], 1)
        with open(os.path.join(HERE, "../pyproject.toml"), encoding="utf-8") as manifest:
            version = next(line.split('"')[1] for line in manifest if line.startswith("version"))
        self.assertEqual(hello["client"], f"anabranch-python {version}")

    def test_batches_one_after_the_other(self) -> None:
        program = self.start(UPSERT)
        program.batch(1, event("OrderPlaced", {"total": 40}, stream="Order:a:b"), event("Other"))
        insert = {"execute": "INSERT INTO totals VALUES ($1, $2)", "values": ["a:b", 40], "event": 0}
        delete = {"execute": "DELETE FROM drafts", "values": [], "event": 0}
        self.assertEqual(program.hear_all(), [insert, delete, {"done": 1}])
        program.batch(2, event("Other"), event("OrderPlaced", {"total": 1}, stream="Order:b"))
        insert.update(values=["b", 1], event=1)
        delete.update(event=1)
        self.assertEqual(program.hear_all(), [insert, delete, {"done": 2}])
        program.batch(3)
        self.assertEqual(program.hear_all(), [{"done": 3}])
        self.assertEqual(program.end(), 0)
        self.assertEqual(program.log(), "")

    def test_the_fields_of_an_event(self) -> None:
        program = self.start(
            """
            from anabranch import run
            def handle(e, tx):
                tx.execute("x", e.position, e.stream, e.category, e.stream_id, e.version, e.id, e.type,
                    e.schema_version, e.data, e.metadata, e.correlation, e.causation, e.tenant, e.customer,
                    e.tags, e.recorded_at, e.place, tx.database, tx.consumer)
            run(handle)
            """
        )
        whole = event("T", [1], stream="Order:x", position=7, version=3, metadata={"a": 1}, correlation="co")
        whole.update(causation="ca", tenant="te", customer="cu", tags=["t:1"], schema_version=2)
        whole["recorded_at"] = "2026-11-15T09:16:47.4451Z"
        program.batch(1, event("T"), whole)
        first, second, _ = program.hear_all()
        self.assertEqual(
            second["values"],
            [7, "Order:x", "Order", "x", 3, whole["id"], "T", 2, [1], {"a": 1}, "co", "ca", "te", "cu", ["t:1"]]
            + ["2026-11-15T09:16:47.445100Z", 1, "sqlite", "risk"],
        )
        self.assertEqual(first["values"][9:15], [None, None, None, None, None, []])
        self.assertEqual(first["values"][15], "2026-01-01T00:00:00.000000Z")

    def test_a_query_is_written_at_once_with_what_was_before_it(self) -> None:
        program = self.start(
            """
            from anabranch import run
            def handle(event, tx):
                tx.execute("first")
                rows = tx.query("SELECT a, b FROM t WHERE id = $1", event.stream_id)
                row, = rows
                a, b = row
                tx.execute("second", row[0], row["b"], a + b, len(row), row[-1], row.as_dict(), rows == [[1, 2]])
                try:
                    row["c"]
                except KeyError as error:
                    tx.execute("third", str(error))
                tx.execute("fourth", tx.query_first("none") is None, tx.query_first("some")["n"])
            run(handle)
            """
        )
        program.batch(1, event("T", stream="A:1"))
        self.assertEqual(program.hear()["execute"], "first")
        asked = {"query": "SELECT a, b FROM t WHERE id = $1", "values": ["1"], "event": 0}
        self.assertEqual(program.hear(), asked)
        program.say({"columns": ["a", "b"], "rows": [[1, 2]]})
        self.assertEqual(program.hear()["values"], [1, 2, 3, 2, 2, {"a": 1, "b": 2}, True])
        self.assertEqual(program.hear()["values"], ["\"no column 'c'; there are a, b\""])
        self.assertEqual(program.hear()["query"], "none")
        program.say({"columns": ["n"], "rows": []})
        self.assertEqual(program.hear()["query"], "some")
        program.say({"columns": ["n", "n"], "rows": [[5, 6], [7, 8]]})
        self.assertEqual(program.hear()["values"], [True, 5])
        self.assertEqual(program.hear(), {"done": 1})

    def test_append_and_enqueue(self) -> None:
        program = self.start(
            """
            from datetime import datetime, timedelta, timezone
            from uuid import UUID
            from anabranch import run
            def handle(event, tx):
                tx.append("Invoice:7", "InvoiceIssued", {"total": 1})
                tx.append("Invoice:8", "InvoiceIssued", expected="none", schema_version=2, metadata={"m": 1},
                    correlation="co", causation="ca", tenant="te", customer="cu", tags=("a:1",), id=UUID(int=5))
                tx.append("Invoice:9", "InvoiceIssued", None, expected=0)
                tx.enqueue("mail", "c-1", {"to": "x"})
                tx.enqueue("mail", "c-1", after=timedelta(minutes=1), unique="u", id="{" + str(UUID(int=6)) + "}")
                tx.enqueue("mail", "c-1", at=datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))
                try:
                    tx.enqueue("mail", "c-1", at=datetime(2026, 1, 1))
                except ValueError as error:
                    tx.execute("x", str(error))
            run(handle)
            """
        )
        program.batch(1, event("A"))
        said = program.hear_all()
        issued = {"type": "InvoiceIssued", "data": None}
        more = {"expected": "none", "schema_version": 2, "metadata": {"m": 1}, "correlation": "co"}
        more.update(causation="ca", tenant="te", customer="cu", tags=["a:1"], id="00000000-0000-0000-0000-000000000005")
        self.assertEqual(said[0]["append"], {**issued, "stream": "Invoice:7", "data": {"total": 1}})
        self.assertEqual(said[1]["append"], {**issued, "stream": "Invoice:8", **more})
        self.assertEqual(said[2]["append"], {**issued, "stream": "Invoice:9", "expected": 0})
        mail = {"pool": "mail", "key": "c-1", "payload": None}
        self.assertEqual(said[3]["enqueue"], {**mail, "payload": {"to": "x"}})
        self.assertEqual(said[4]["enqueue"], {**mail, "after": 60, "unique": "u", "id": "00000000-0000-0000-0000-000000000006"})
        self.assertEqual(said[5]["enqueue"], {**mail, "at": "2026-01-01T00:00:00.000000Z"})
        self.assertIn("time zone", said[6]["values"][0])
        self.assertTrue(all(message["event"] == 0 for message in said[:-1]))

    def test_traces(self) -> None:
        program = self.start(
            """
            from anabranch import run
            def handle(event, tx):
                tx.append("Seen:1", "Seen", event.traceparent)
                for trace in (event.traceparent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0", "00-" + "0" * 32 + "-b7ad6b7169203331-01", 7):
                    try:
                        tx.append("Seen:1", "Seen", traceparent=trace)
                        tx.enqueue("mail", "c-1", traceparent=trace)
                    except ValueError as error:
                        tx.execute("x", str(error))
            run(handle)
            """
        )
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        program.batch(1, dict(event("A"), traceparent=trace))
        said = program.hear_all()
        self.assertEqual(said[0]["append"]["data"], trace)
        # Without one of its own nothing is said: Anabranch goes on with that of the event.
        self.assertNotIn("traceparent", said[0]["append"])
        self.assertEqual([said[1]["append"]["traceparent"], said[2]["enqueue"]["traceparent"]], [trace, trace])
        self.assertTrue(all("W3C trace context" in message["values"][0] for message in said[3:6]))
        program.batch(2, event("A"))
        self.assertIsNone(program.hear()["append"]["data"])

    def test_whole_batches(self) -> None:
        program = self.start(
            """
            from anabranch import Failed, run
            def handle(events, tx):
                tx.execute("all", sum(event.data for event in events))
                for event in events:
                    tx.for_event(event)
                    tx.append("A:1", "Seen", event.data)
                tx.for_event(None)
                tx.execute("end")
                if len(events) == 1:
                    tx.append("A:1", "Seen")
                if len(events) == 3:
                    raise Failed("the second", event=events[1])
            run(batch=handle)
            """
        )
        program.batch(1, event("A", 1), event("A", 2))
        said = program.hear_all()
        self.assertEqual(said[0], {"execute": "all", "values": [3]})
        self.assertEqual([it.get("event") for it in said], [None, 0, 1, None, None])
        self.assertEqual(said[-1], {"done": 1})
        program.batch(2, event("A", 1))
        (failed,) = program.hear_all()
        self.assertNotIn("event", failed)
        self.assertIn("tx.for_event(event)", failed["error"])
        program.batch(3, event("A", 1), event("A", 1), event("A", 1))
        self.assertEqual(program.hear_all(), [{"failed": 3, "event": 1, "error": "the second"}])

    def test_a_large_batch(self) -> None:
        program = self.start(UPSERT)
        text = "x" * 100
        events = [event("OrderPlaced", {"total": n, "text": text}, stream=f"Order:{n}") for n in range(20000)]
        program.batch(1, *events)
        said = program.hear_all()
        self.assertEqual(len(said), 40001)
        self.assertEqual(said[-3]["values"], ["19999", 19999])
        self.assertEqual(said[-3]["event"], 19999)
        self.assertEqual(program.end(), 0)

    def test_many_statements_are_not_kept_in_mind(self) -> None:
        program = self.start(
            """
            from anabranch import _tx, run
            def handle(event, tx):
                for n in range(3000):
                    tx.execute(f"statement {n}")
                tx.execute("kept", len(_tx._executes))
            run(handle)
            """
        )
        program.batch(1, event("A"))
        said = program.hear_all()
        self.assertEqual([it["execute"] for it in said[:3000]], [f"statement {n}" for n in range(3000)])
        self.assertLessEqual(said[3000]["values"][0], 1000)
