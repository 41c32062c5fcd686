"""How a program begins and ends, and who may write to its pipes."""

import signal

from tests.engine import Conversation, event

QUIET = "from anabranch import run\nrun(lambda event, tx: tx.execute('x'))"


class Life(Conversation):
    def test_the_end_of_input_ends_it(self) -> None:
        program = self.start(QUIET + "\nimport sys\nprint('after', file=sys.stderr)")
        self.assertEqual(program.end(), 0)
        self.assertEqual(program.log(), "after\n")

    def test_the_end_of_input_within_a_batch_ends_it(self) -> None:
        source = """
            from anabranch import run
            def handle(event, tx):
                try:
                    tx.query("SELECT 1")
                except BaseException:
                    pass
                tx.execute("x")
            run(handle)
            """
        program = self.start(source)
        program.batch(1, event("A"))
        program.hear()
        self.assertEqual(program.end(), 0)
        self.assertEqual(program.log(), "")

    def test_half_a_batch_is_no_batch(self) -> None:
        program = self.start(QUIET)
        program.raw(b'{"batch":1,"events":[]}')
        self.assertEqual(program.end(), 0)
        self.assertEqual(program.log(), "")

    def test_an_output_that_nobody_reads_ends_it(self) -> None:
        program = self.start(QUIET)
        program.stdout.close()
        program.batch(1, event("A"))
        self.assertEqual(program.wait(), 0)
        self.assertEqual(program.log(), "")

    def test_a_broken_pipe_of_the_handler_is_its_own(self) -> None:
        program = self.start("from anabranch import run\ndef h(e, tx): raise BrokenPipeError('mine')\nrun(h)")
        program.batch(1, event("A"))
        self.assertIn("BrokenPipeError: mine", program.hear()["error"])

    def test_sigterm_ends_it_without_a_word(self) -> None:
        program = self.start(QUIET)
        program.process.send_signal(signal.SIGTERM)
        self.assertEqual(program.wait(), -signal.SIGTERM)
        self.assertEqual(program.log(), "")

    def test_another_version_is_refused(self) -> None:
        program = self.start(QUIET, greet=False)
        self.assertEqual(program.greet(protocol=2)["hello"]["protocol"], 1)
        self.assertEqual(program.wait(), 1)
        self.assertIn("Anabranch speaks version 2 of the protocol and this package version 1", program.log())
        self.assertNotIn("Traceback", program.log())

    def test_what_it_does_not_understand_ends_it(self) -> None:
        for line in (b"hello\n", b"[1]\n", b'{"batch":"one","events":[]}\n', b"\xff\n", b'{"batch":1,"tasks":[{},{}]}\n'):
            program = self.start("from anabranch import run_tasks\nrun_tasks(lambda task, tx: None)")
            program.raw(line)
            self.assertEqual(program.wait(), 1, line)
            self.assertTrue(program.log().startswith("anabranch: "), program.log())
        program = self.start(QUIET, greet=False)
        program.raw(b'{"batch":1,"events":[]}\n')
        self.assertEqual(program.wait(), 1)
        self.assertIn("a greeting was expected", program.log())
        program = self.start("from anabranch import run\nrun(lambda event, tx: tx.query('x') and None)")
        program.batch(1, event("A"))
        program.hear()
        program.say({"rows": 1})
        self.assertEqual(program.wait(), 1)
        self.assertIn("rows were expected", program.log())

    def test_nobody_else_writes_to_standard_output(self) -> None:
        program = self.start(
            """
            import os, subprocess, sys
            from sys import stdout
            from anabranch import run
            print("before")
            def handle(event, tx):
                print("printed")
                sys.stdout.write("written\\n")
                sys.__stdout__.write("original\\n")
                stdout.write("imported\\n")
                stdout.flush()
                os.write(1, b"descriptor\\n")
                subprocess.run(["sh", "-c", "echo started"], check=True)
                print("last")
                tx.execute("x")
            run(handle)
            """,
            greet=False,
        )
        # What is printed before `run` is no answer either, but there it is the user's mistake.
        self.assertEqual(program.line(), "before")
        program.greet()
        program.batch(1, event("A"))
        self.assertEqual([list(it)[0] for it in program.hear_all()], ["execute", "done"])
        self.assertIn("last", program.log())  # At once, not when a buffer is full.
        self.assertEqual(program.end(), 0)
        for word in ("printed", "written", "original", "imported", "descriptor", "started"):
            self.assertIn(word, program.log())

    def test_nobody_else_reads_batches(self) -> None:
        program = self.start(
            """
            import subprocess, sys
            from anabranch import run
            def handle(event, tx):
                tx.execute("x", subprocess.run(["cat"], capture_output=True, text=True).stdout + sys.stdin.read())
            run(handle)
            """
        )
        program.batch(1, event("A"))
        program.batch(2, event("A"))
        said = program.hear_all() + program.hear_all()
        self.assertEqual([it.get("values") for it in said], [[""], None, [""], None])

    def test_sys_exit_in_a_handler_ends_the_program(self) -> None:
        program = self.start("import sys\nfrom anabranch import run\nrun(lambda event, tx: sys.exit(3))")
        program.batch(1, event("A"))
        self.assertIsNone(program.line())
        self.assertEqual(program.wait(), 3)
