"""Operations: planned, applied, cancelled, and in the journal."""

import os
import unittest

from anabranch.client import Conflict, Invalid, NotFound, NotTheApi, StillRunning, connect


class Operations(unittest.TestCase):
    def setUp(self) -> None:
        self.client = connect(os.environ["ANABRANCH_TEST_URL"], os.environ["ANABRANCH_TEST_TOKEN"])
        self.addCleanup(self.client.close)

    def test_a_plan_is_applied_once_and_is_in_the_journal(self) -> None:
        pause = {"do": "pause_key", "pool": "doubles", "key": "python-paused"}
        plan = self.client.plan(pause)
        self.assertEqual((plan.state, plan.raw["request"]), ("open", pause))
        self.assertIn("python-paused", plan.says)
        self.assertEqual(list(self.client.journal(plan=plan)), [])
        self.assertEqual(self.client.apply(plan).state, "done")
        self.assertEqual(self.client.show_plan(plan.id).state, "done")
        with self.assertRaises(Conflict) as used:
            self.client.apply(plan)
        self.assertEqual(used.exception.code, "plan_used")
        (entry,) = self.client.journal(plan=plan)
        self.assertEqual((entry["stage"], entry["who"], entry["plan"]), ("applied", "test", plan.id))
        self.assertEqual(self.client.apply(self.client.plan({**pause, "do": "resume_key"})).state, "done")
        self.assertEqual(len(list(self.client.journal(target="doubles", limit=1))), 1)

    def test_a_plan_that_goes_step_by_step_is_waited_for(self) -> None:
        for number in range(3):
            self.client.enqueue("python-slow", f"key-{number}", after=3600)
        cancel = {"do": "tasks", "action": "cancel", "where": ["pool=python-slow"], "per_second": 1}
        plan = self.client.plan(cancel)
        self.assertEqual(self.client.wait_for_plan(plan, timeout=0).state, "open", "nobody has applied it")
        self.assertEqual(self.client.apply(plan).state, "running")
        with self.assertRaises(StillRunning) as still:
            self.client.wait_for_plan(plan, timeout=0)
        self.assertEqual(still.exception.plan.id, plan.id)
        self.assertEqual(self.client.wait_for_plan(plan.id).state, "done")
        with self.assertRaises(Invalid):
            self.client.plan({"do": "tasks", "action": "cancel"})
        self.assertEqual(self.client.plan({"do": "tasks", "action": "retry", "all": True}).state, "open")

    def test_https_to_a_server_that_speaks_http_says_so(self) -> None:
        url = os.environ["ANABRANCH_TEST_URL"].replace("http://", "https://")
        with connect(url, os.environ["ANABRANCH_TEST_TOKEN"]) as client, self.assertRaises(NotTheApi) as plain:
            client.show_plan("018f7b86-0000-7000-8000-000000000001")
        self.assertIn("http://", str(plain.exception))

    def test_a_cancelled_plan_is_not_applied(self) -> None:
        plan = self.client.plan({"do": "pause_key", "pool": "doubles", "key": "python-cancelled"})
        self.assertEqual(self.client.cancel(plan).state, "cancelled")
        with self.assertRaises(Conflict):
            self.client.apply(plan)
        self.assertEqual([entry["stage"] for entry in self.client.journal(plan=plan)].count("applied"), 0)
        with self.assertRaises(NotFound):
            self.client.show_plan("018f7b86-0000-7000-8000-000000000001")


if __name__ == "__main__":
    unittest.main()
