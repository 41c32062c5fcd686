"""Handlers that fail, and batches that are abandoned."""

from typing import Any, Dict, List

from tests.engine import Conversation, event

ABANDONED = {"abandoned": 1, "error": "no such table: t"}


class Failures(Conversation):
    def test_an_exception_fails_its_event_with_one_line(self) -> None:
        program = self.start(
            """
            from anabranch import run
            def check(data):
                raise ValueError("bad " + data + "\\ud800al")
            def handle(event, tx):
                tx.execute("x")
                if event.data:
                    check(event.data)
            run(handle)
            """
        )
        program.batch(1, event("A"), event("A", "töt"), event("A"))
        error = "ValueError: bad töt?al (program.py:4, in check)"
        self.assertEqual(program.hear_all(), [{"failed": 1, "event": 1, "error": error}])
        program.batch(2, event("A"))
        self.assertEqual(program.hear_all()[-1], {"done": 2})
        self.assertIn("Traceback (most recent call last)", program.log())
        self.assertIn("in handle", program.log())

    def test_a_value_that_does_not_fit_is_the_handlers_mistake(self) -> None:
        program = self.start(
            """
            from anabranch import run
            def handle(event, tx):
                values = [{1}, b"x", object(), float("nan"), {1: 2}, [float("inf")], "\\ud800"]
                tx.execute("x", 1, values[event.data])
            run(handle)
            """
        )
        errors = [
            "TypeError: $2: set is no value that JSON has (program.py:5, in handle)",
            "TypeError: $2: bytes are no value: pass value.hex(), and decode it in the statement",
            "TypeError: $2: object is no value",
            "ValueError: $2: nan is no number",
            "TypeError: $2: keys of an object are texts, not 1",
            "ValueError: $2: inf is no number",
            "UnicodeEncodeError: ",
        ]
        for number, error in enumerate(errors):
            program.batch(number, event("A", number))
            (failed,) = program.hear_all()
            self.assertEqual((failed["failed"], failed["event"]), (number, 0))
            self.assertTrue(failed["error"].startswith(error), failed["error"])

    def test_events_and_tasks_that_cannot_be_are_the_handlers_mistake(self) -> None:
        calls = {
            "enqueue('mail', event.customer)": "TypeError: enqueue: key is a text, not None",
            "enqueue('mail', 'c', after=-1)": "ValueError: enqueue: after is a number of seconds, a year at most, not -1",
            "enqueue('mail', 'c', id='some')": "ValueError: badly formed hexadecimal UUID string",
            "append(1, 'T')": "TypeError: append: stream is a text, not 1",
            "append('A:1', 'T', tags=[1])": "TypeError: append: tags are texts, not [1]",
            "append('A:1', 'T', expected='some')": 'ValueError: append: expected is "any", "none" or a version',
            "append('A:1', 'T', expected=True)": 'ValueError: append: expected is "any", "none" or a version',
        }
        source = "from anabranch import run\ncalls = %r\ndef handle(event, tx):\n    eval('tx.' + calls[event.data])\nrun(handle)"
        program = self.start(source % list(calls))
        for number, error in enumerate(calls.values()):
            program.batch(1, event("A", number))
            self.assertTrue(program.hear()["error"].startswith(error), error)

    def test_failed_says_whether_to_try_again(self) -> None:
        program = self.start(
            """
            from datetime import timedelta
            from anabranch import Failed, run
            def handle(event, tx):
                raise Failed("no", again=[True, False, 2.5, 0, timedelta(minutes=1), -1][event.data])
            run(handle)
            """
        )
        agains: List[Dict[str, Any]] = [{}, {"again": "never"}, {"again": 2.5}, {"again": 0}, {"again": 60}]
        for number, again in enumerate(agains):
            program.batch(1, event("A", number))
            self.assertEqual(program.hear_all(), [{"failed": 1, "event": 0, "error": "no", **again}])
        self.assertEqual(program.log(), "")
        program.batch(1, event("A", 5))
        self.assertIn("ValueError: again is False or a number of seconds", program.hear()["error"])

    def test_nothing_follows_a_failure(self) -> None:
        program = self.start(
            """
            from anabranch import run
            kept = []
            def handle(event, tx):
                for old in kept:
                    try:
                        old.execute("late")
                        tx.execute("not refused")
                    except Exception as error:
                        tx.execute(type(error).__name__)
                kept.append(tx)
                if event.type == "Bad":
                    1 / 0
            run(handle)
            """
        )
        program.batch(1, event("Bad"), event("A"))
        self.assertEqual([list(it)[0] for it in program.hear_all()], ["failed"])
        program.batch(2, event("A"))
        self.assertEqual([it.get("execute") for it in program.hear_all()], ["RuntimeError", None])
        program.batch(3, event("A"))
        self.assertEqual([it.get("execute") for it in program.hear_all()], ["RuntimeError"] * 2 + [None])

    def test_an_abandoned_batch_is_forgotten(self) -> None:
        program = self.start(
            """
            from anabranch import run
            def handle(event, tx):
                tx.execute("before")
                try:
                    tx.query("SELECT 1")
                except Exception:
                    print("caught")
                tx.execute("after")
            run(handle)
            """
        )
        program.batch(1, event("A"), event("A"))
        self.assertEqual([list(program.hear())[0] for _ in "12"], ["execute", "query"])
        program.say(ABANDONED)
        program.batch(2, event("A"))
        self.assertEqual([program.hear().get("execute") for _ in "12"], ["before", None])
        program.say({"columns": ["a"], "rows": [[1]]})
        self.assertEqual(program.hear_all(), [{"execute": "after", "values": [], "event": 0}, {"done": 2}])
        self.assertIn("batch 1 was abandoned: no such table: t", program.log())
        self.assertNotIn("caught", program.log())
        self.assertEqual(program.end(), 0)

    def test_an_abandoned_batch_cannot_be_swallowed(self) -> None:
        program = self.start(
            """
            import sys
            from anabranch import run
            def handle(event, tx):
                print("event", event.data, file=sys.stderr)
                for sql in ("SELECT 1", "SELECT 2"):
                    try:
                        tx.query(sql)
                    except BaseException as error:
                        print(type(error).__name__, sql, file=sys.stderr)
                try:
                    tx.append("A:1", "B")
                except BaseException as error:
                    print(type(error).__name__, file=sys.stderr)
                if event.data == 2:
                    raise ValueError("something else")
            run(handle)
            """
        )
        for number in (1, 2):
            program.batch(number, event("A", number), event("A", 99))
            self.assertEqual(program.hear()["query"], "SELECT 1")
            program.say({"abandoned": number, "error": "lost"})
        program.batch(3)
        self.assertEqual(program.hear(), {"done": 3})
        self.assertTrue(program.silent())
        log = program.log()
        for words in ("Abandoned SELECT 1", "Abandoned SELECT 2", "Abandoned\n", "event 2"):
            self.assertIn(words, log)
        self.assertNotIn("event 99", log)

    def test_a_generator_or_an_answer_that_is_returned_would_be_lost(self) -> None:
        program = self.start("from anabranch import run\nrun(lambda event, tx: 'INSERT')")
        program.batch(1, event("A"))
        self.assertIn("returns nothing", program.hear()["error"])
        for handler in ("async def handle(event, tx): pass", "def handle(event, tx): yield"):
            program = self.start(f"from anabranch import run\n{handler}\nrun(handle)", greet=False)
            self.assertEqual(program.wait(), 1)
            self.assertIn("would do nothing when it is called", program.log())

    def test_a_handler_that_is_no_function(self) -> None:
        for call in ("run()", "run('handle')", "run_tasks(None)", "run(print, batch=print)"):
            program = self.start(f"from anabranch import run, run_tasks\n{call}", greet=False)
            self.assertEqual(program.wait(), 1)
            self.assertIn("TypeError: ", program.log())

    def test_a_program_for_events_that_is_given_tasks(self) -> None:
        program = self.start("from anabranch import run\nrun(lambda event, tx: None)")
        program.tasks(1)
        (failed,) = program.hear_all()
        self.assertEqual(failed["again"], "never")
        self.assertIn("this program handles events (it calls run), and was given tasks", failed["error"])
