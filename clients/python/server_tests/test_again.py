"""What is sent again, and what never is."""

import threading
import unittest
from typing import Callable

from anabranch.client import Conflict, Match, NewEvent, NoAnswer, ToStream, Unavailable, Unless
from serving import Served, until


class Again(Served):
    def read(self) -> "list[object]":
        return [event.data for event in self.client.read()]

    def test_an_append_whose_answer_is_lost_is_there_once(self) -> None:
        proxy = self.server.proxy
        for lost, passes in ((1, 0), (3, 0), (2, 20), (1, 150)):
            before = self.read()
            proxy.loses, proxy.passes = lost, passes
            appended = self.client.append("A:1", [NewEvent("X", len(before)), NewEvent("X", len(before) + 1)])
            self.assertEqual(proxy.loses, 0)
            self.assertEqual(self.read(), [*before, len(before), len(before) + 1])
            self.assertEqual(appended.events[1].version, len(before) + 2)
        self.assertEqual(proxy.lost, 7)

    def test_expectations_hold_for_one_that_was_stored_already(self) -> None:
        self.server.proxy.loses = 1
        self.assertEqual(self.client.append("A:1", NewEvent("X"), expected="none").events[0].version, 1)
        self.server.proxy.loses = 1
        self.assertEqual(self.client.append("A:1", NewEvent("X"), expected=1).events[0].version, 2)
        with self.assertRaises(Conflict):
            self.client.append("A:1", NewEvent("X"), expected=1)
        # What the first request has stored matches the condition of the second.
        self.server.proxy.loses = 1
        unless = Unless([Match(["Taken"], ["name:ada"])], 0)
        taken = [ToStream("User:1", [NewEvent("Taken", tags=["name:ada"])])]
        stored = self.client.append_all(taken, unless=unless)
        self.assertEqual([event.id for event in self.client.read(types=["Taken"])], [stored.events[0].id])
        with self.assertRaises(Conflict):
            self.client.append_all(taken, unless=unless)

    def test_tasks_and_commands_are_enqueued_once(self) -> None:
        self.server.proxy.loses = 1
        task = self.client.enqueue("p", "k", 1, unique="u")
        # Its first request was carried out, and its second one found that.
        self.assertFalse(task.is_new)
        self.server.proxy.loses = 1
        sent = self.client.send_command("counters", "a", {"Add": 1})
        self.assertFalse(sent.is_new)
        self.assertEqual(self.client.task(sent.id).state, "ready")

    def test_a_key_of_ones_own_makes_two_calls_one(self) -> None:
        for _ in range(2):
            appended = self.client.append("A:1", NewEvent("X", 1), idempotency_key="order-17")
            task = self.client.enqueue("p", "k", 1, idempotency_key="order-17")
        self.assertEqual(appended.events[0].version, 1)
        self.assertFalse(task.is_new)
        self.assertEqual(self.read(), [1])
        with self.assertRaises(Conflict) as reused:
            self.client.append("A:1", NewEvent("X", 2), idempotency_key="order-17")
        self.assertEqual(reused.exception.code, "id_reused")

    def test_who_gives_up_is_told_the_key(self) -> None:
        self.server.proxy.loses = 1
        with self.server.connect(retry_for=0) as hasty:
            with self.assertRaises(NoAnswer) as lost:
                hasty.append("A:1", NewEvent("X", 1))
            self.assertTrue(lost.exception.may_have_happened)
            self.assertIn("idempotency_key", str(lost.exception))
            hasty.append("A:1", NewEvent("X", 1), idempotency_key=lost.exception.idempotency_key)
        self.assertEqual(self.read(), [1])

    def test_it_waits_for_a_server_that_is_away(self) -> None:
        self.client.append("A:1", NewEvent("X", 1))
        self.server.stop()
        came = self.server.proxy.came
        appending = threading.Thread(target=self.client.append, args=("A:1", NewEvent("X", 2)))
        appending.start()
        until("it has tried three times", lambda: self.server.proxy.came >= came + 3)
        self.server.start()
        appending.join()
        self.assertEqual(self.read(), [1, 2])

    def test_what_has_no_key_is_sent_once(self) -> None:
        list(self.client.read())
        came = self.server.proxy.came
        calls: "list[Callable[[], object]]" = [
            lambda: self.client.plan({"do": "pause", "consumer": "c"}),
            lambda: self.client.apply("x"),
        ]
        for call in calls:
            self.server.proxy.loses = 1
            with self.assertRaises(NoAnswer) as lost:
                call()
            self.assertIsNone(lost.exception.idempotency_key)
        # Not by the connection that was kept, either: nobody can know whether that is still good.
        self.assertEqual((self.server.proxy.came - came, self.server.proxy.lost), (2, 2))

    def test_a_server_that_stays_away_is_an_error(self) -> None:
        self.server.stop()
        with self.server.connect(retry_for=0.2) as hasty, self.assertRaises((NoAnswer, Unavailable)):
            hasty.append_all([ToStream("A:1", [NewEvent("X")])])


if __name__ == "__main__":
    unittest.main()
