"""Handlers without a database."""

import unittest
from decimal import Decimal
from typing import Any, List

from anabranch import Event, Failed, Task, Tx
from anabranch.testing import event, rehearse, rehearse_task


def handle(event: Event, tx: Tx) -> None:
    row = tx.query_first("SELECT total FROM risk WHERE customer = $1", event.customer)
    total = (row["total"] if row else 0) + event.data["total"]
    if total > 1000:
        raise Failed("too much", again=False)
    tx.execute("UPDATE risk SET total = $1 WHERE customer = $2", total, event.customer)


def each(events: List[Event], tx: Tx) -> None:
    tx.execute("x", len(events))


def send(task: Task, tx: Tx) -> Any:
    task.save("halfway")
    return task.payload


class Rehearsals(unittest.TestCase):
    def test_answers_and_failures(self) -> None:
        given = [event("OrderPlaced", {"total": 40}, customer="c-1")]
        said = rehearse(handle, given, answer=lambda sql, values: [{"total": 60}] if values == ["c-1"] else [])
        self.assertEqual(said[1]["values"], [100, "c-1"])
        self.assertEqual(rehearse(handle, given, answer=lambda sql, values: [])[1]["values"], [40, "c-1"])
        with self.assertRaises(Failed):
            rehearse(handle, given, answer=lambda sql, values: [{"total": 1000}])
        with self.assertRaisesRegex(AssertionError, "give rehearse an answer="):
            rehearse(handle, given)

    def test_batches_tasks_and_events(self) -> None:
        self.assertEqual(rehearse(batch=each, events=[event("A"), event("B")]), [{"execute": "x", "values": [2]}])
        said = rehearse_task(send, {"to": "x"})
        self.assertEqual(said, [{"save": "halfway"}, {"done": 1, "result": {"to": "x"}}])
        self.assertEqual(event("A", Decimal("1.5"), tags=["a:1"])["tags"], ["a:1"])
        with self.assertRaisesRegex(TypeError, "an event has no custmer"):
            event("A", custmer="c-1")

    def test_line_ends_of_other_alphabets_stay_in_their_texts(self) -> None:
        text = "a\u2028b\u2029c\u0085d\x0be"
        said = rehearse(lambda event, tx: tx.execute("SELECT $1", event.data), [event("A", text)])
        self.assertEqual(said, [{"execute": "SELECT $1", "values": [text], "event": 0}])

    def test_values_that_are_passed_as_a_list_are_refused(self) -> None:
        def said(*given: Any) -> Any:
            return rehearse(lambda event, tx: tx.execute(*given), [event("A")])[0]["values"]

        for given in (
            ("INSERT INTO t VALUES ($1, $2)", [1, 2]),
            ("INSERT INTO t VALUES ($1, $2)", (1, 2)),
            ("INSERT INTO t VALUES ($1)", (1,)),
            ("DELETE FROM t", []),
        ):
            with self.assertRaisesRegex(TypeError, r"^pass values one by one, not as a list: tx.execute\(sql, a, b\)$"):
                said(*given)
            with self.assertRaisesRegex(TypeError, "one by one"):
                rehearse(lambda event, tx: tx.query_first(*given), [event("A")], answer=lambda sql, values: [])
        self.assertEqual(said("DELETE FROM t WHERE id = ANY($1) AND price <> '$5'", [1, 2]), [[1, 2]])
        self.assertEqual(said("-- don't\nDELETE FROM t WHERE id = ANY($1) /* '$2 */ AND k <> 'x'", [1]), [[1]])
        self.assertEqual(said("INSERT INTO t VALUES ($1, $2)", [1, 2], (3,)), [[1, 2], [3]])
        self.assertEqual(said("UPDATE t SET a = $1 WHERE b = $1", [1]), [[1]])

    def test_waits_of_more_than_a_year_are_refused(self) -> None:
        def enqueue(after: float) -> Any:
            return rehearse(lambda event, tx: tx.enqueue("p", "k", after=after), [event("A")])

        for wrong in (1e300, float("inf"), float("nan"), -1, 10**20):
            with self.assertRaisesRegex(ValueError, "after is a number of seconds, a year at most"):
                enqueue(wrong)
            with self.assertRaisesRegex(ValueError, "again is False or a number of seconds, a year at most"):
                Failed("x", again=wrong)
        self.assertEqual(enqueue(86_400 * 365)[0]["enqueue"]["after"], 86_400 * 365)
        self.assertEqual(Failed("x", again=3600).again, 3600)
