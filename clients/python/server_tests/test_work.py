"""Tasks and commands, with a worker that has the code."""

import os
import unittest
from datetime import datetime, timedelta

from anabranch.client import CommandRefused, NotFound, StillOpen, connect


class Work(unittest.TestCase):
    def setUp(self) -> None:
        self.client = connect(os.environ["ANABRANCH_TEST_URL"], os.environ["ANABRANCH_TEST_TOKEN"])
        self.addCleanup(self.client.close)

    def test_a_task_is_run_and_waited_for(self) -> None:
        task = self.client.enqueue("doubles", "python", 21)
        self.assertTrue(task.is_new)
        done = self.client.wait(task, timeout=60)
        self.assertEqual((done.state, done.result, done.pool, done.key), ("done", 42, "doubles", "python"))
        self.assertEqual(self.client.task(task.id).raw["payload"], 21)

    def test_one_that_is_not_over_says_so(self) -> None:
        for when in ({"after": 3600}, {"at": datetime.now() + timedelta(hours=1)}):
            later = self.client.enqueue("doubles", "later", 1, **when)
            with self.assertRaises(StillOpen) as still:
                self.client.wait(later, timeout=0.1)
            task = still.exception.task
            self.assertEqual(task.state, "scheduled")
            runs = datetime.strptime(task.raw["run_at"][:19], "%Y-%m-%dT%H:%M:%S") - datetime.utcfromtimestamp(0)
            self.assertAlmostEqual(runs.total_seconds(), datetime.now().timestamp() + 3600, delta=60)
        with self.assertRaises(NotFound):
            self.client.wait("018f7b86-0000-7000-8000-000000000001")

    def test_a_command_is_carried_out_once(self) -> None:
        amount, id = 9_007_199_254_740_993, "018f7b86-0000-7000-8000-00000000000a"
        sent = [self.client.send_command("counters", "python", {"Add": amount}, id=id) for _ in range(2)]
        self.assertEqual([one.is_new for one in sent], [True, False])
        self.assertEqual((sent[0].command_id, sent[0].id), (id, sent[1].id))
        done = self.client.wait_for_command(sent[0], timeout=60)
        self.assertEqual((done.events, done.version), (1, 1))

    def test_why_a_command_was_not_carried_out(self) -> None:
        for command, outcome, why in (
            ({"Add": -1}, "rejected", "it would be negative"),
            ({"Subtract": 1}, "unreadable", "Subtract"),
        ):
            sent = self.client.send_command("counters", "python-refused", command)
            with self.assertRaises(CommandRefused) as refused:
                self.client.wait_for_command(sent, timeout=60)
            self.assertEqual(refused.exception.outcome, outcome)
            self.assertIn(why, str(refused.exception))


if __name__ == "__main__":
    unittest.main()
