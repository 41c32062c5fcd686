"""Anabranch's side of the conversation, played by a test: a real process, real pipes."""

import json
import os
import select
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from decimal import Decimal
from typing import Any, Dict, List, Optional, Set

from anabranch.testing import event as event

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 20.0
HELLO = {"protocol": 1, "anabranch": "0.1.0", "consumer": "risk", "kind": "program", "database": "sqlite"}


class Program:
    """A program that is running."""

    def __init__(self, source: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(source))
        self.errors = open(os.path.join(self.folder.name, "errors"), "w+b")
        self.process = subprocess.Popen(
            [sys.executable, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            # Without a buffer, nobody sees whether what is printed waits in one.
            env={**os.environ, "PYTHONPATH": os.path.dirname(HERE), "PYTHONUNBUFFERED": ""},
            bufsize=0,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.stdin = self.process.stdin
        self.stdout = self.process.stdout
        self._read = b""
        self._numbers: Set[int] = set()

    def raw(self, line: bytes) -> None:
        left = memoryview(line)
        while left:
            left = left[self.stdin.write(left) :]

    def say(self, message: Any) -> None:
        if isinstance(message, dict) and "batch" in message:
            self._numbers.add(message["batch"])
        self.raw(json.dumps(message, ensure_ascii=False).encode("utf-8") + b"\n")

    def greet(self, **more: Any) -> Any:
        self.say({"hello": {**HELLO, **more}})
        return self.hear()

    def batch(self, number: int, *events: Dict[str, Any]) -> None:
        self.say({"batch": number, "events": events})

    def tasks(self, number: int, **task: Any) -> None:
        given = {"id": "t-1", "key": "c-1", "payload": None, "attempt": 1, "idempotency_key": "i-1", "checkpoint": None}
        self.say({"batch": number, "tasks": [{**given, **task}]})

    def line(self) -> Optional[str]:
        """The next line that it wrote; None at the end."""
        until = time.monotonic() + PATIENCE
        while b"\n" not in self._read:
            if not select.select([self.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                raise AssertionError(f"nothing was answered; standard error: {self.log()}")
            more = os.read(self.stdout.fileno(), 1 << 20)
            if not more:
                assert not self._read, self._read
                return None
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line.decode("utf-8")

    def hear(self) -> Any:
        line = self.line()
        assert line is not None, f"it has ended; standard error: {self.log()}"
        message = json.loads(line, parse_float=Decimal)
        if not message.keys() & {"hello", "done", "failed"}:
            # Each says to which batch it belongs.
            assert message.pop("batch") in self._numbers, message
        return message

    def hear_all(self) -> List[Any]:
        """Its messages up to the end of the batch."""
        heard = [self.hear()]
        while not ("done" in heard[-1] or "failed" in heard[-1]):
            heard.append(self.hear())
        return heard

    def silent(self) -> bool:
        """Nothing waits to be read. Ask only when the program is known to be further on."""
        return not self._read and not select.select([self.stdout], [], [], 0)[0]

    def log(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def end(self) -> int:
        self.stdin.close()
        assert self.line() is None
        return self.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()
        self.errors.close()
        self.folder.cleanup()


class Conversation(unittest.TestCase):
    """Tests that talk to a program."""

    def start(self, source: str, greet: bool = True) -> Program:
        program = Program(source)
        self.addCleanup(program.close)
        if greet:
            self.assertEqual(program.greet()["hello"]["protocol"], 1)
        return program
