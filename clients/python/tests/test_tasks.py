"""Tasks of a pool."""

from tests.engine import Conversation, event

SEND = """
    from anabranch import Failed, run_tasks
    def handle(task, tx):
        if task.payload == "fail":
            raise Failed("away", again=5)
        if task.payload == "steps":
            for step in range(task.checkpoint or 0, 3):
                task.save(step + 1)
            return task.checkpoint
        if task.payload == "set":
            return {1}
        if task.payload:
            tx.enqueue("next", task.key, [task.id, task.attempt, task.idempotency_key])
            tx.execute("UPDATE t SET done = $1", True)
            return {"sent": task.payload}
    run_tasks(handle)
"""


class Tasks(Conversation):
    def test_results_and_failures(self) -> None:
        program = self.start(SEND)
        program.tasks(1)
        self.assertEqual(program.hear_all(), [{"done": 1}])
        program.tasks(2, payload="a", attempt=2)
        task = {"pool": "next", "key": "c-1", "payload": ["t-1", 2, "i-1"]}
        execute = {"execute": "UPDATE t SET done = $1", "values": [True], "event": 0}
        done = {"done": 2, "result": {"sent": "a"}}
        self.assertEqual(program.hear_all(), [{"enqueue": task, "event": 0}, execute, done])
        program.tasks(3, payload="fail")
        self.assertEqual(program.hear_all(), [{"failed": 3, "event": 0, "error": "away", "again": 5}])
        program.tasks(4, payload="set")
        self.assertIn("set is no value", program.hear()["error"])
        self.assertEqual(program.end(), 0)

    def test_a_task_knows_its_trace(self) -> None:
        program = self.start(
            """
            from anabranch import run_tasks
            run_tasks(lambda task, tx: [task.traceparent])
            """
        )
        program.tasks(1, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        self.assertEqual(program.hear()["result"], ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"])
        program.tasks(2)
        self.assertEqual(program.hear()["result"], [None])

    def test_checkpoints_are_answered(self) -> None:
        program = self.start(SEND)
        program.tasks(1, payload="steps", checkpoint=1)
        for step in (2, 3):
            self.assertEqual(program.hear(), {"save": step})
            program.say({"saved": True})
        self.assertEqual(program.hear_all(), [{"done": 1, "result": 3}])
        program.tasks(2, payload="steps")
        self.assertEqual(program.hear(), {"save": 1})
        program.say({"abandoned": 2, "error": "another worker has it"})
        program.tasks(3)
        self.assertEqual(program.hear_all(), [{"done": 3}])
        program.tasks(4, payload="steps")
        program.hear()
        program.say({"columns": [], "rows": []})
        self.assertEqual(program.wait(), 1)
        self.assertIn("`saved` was expected", program.log())

    def test_a_program_for_tasks_that_is_given_events(self) -> None:
        program = self.start(SEND)
        program.batch(1, event("A"))
        self.assertIn("it calls run_tasks), and was given events", program.hear()["error"])
