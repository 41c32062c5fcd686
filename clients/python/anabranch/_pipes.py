"""The two pipes, and everybody else kept away from them."""

import json
import os
import sys
from typing import Any, Callable, Optional

from ._errors import EngineGone, ProtocolError


class Pipes:
    """Standard input and output as they were. From here on, what anybody prints goes to standard error.

    The file descriptors are moved as well as ``sys.stdout``: programs that a handler starts and libraries in C
    write to the descriptor. And a program that a handler starts must not read batches.
    """

    def __init__(self, parse_float: Optional[Callable[[str], Any]]) -> None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        self._input = os.fdopen(os.dup(0), "rb", buffering=1 << 18)
        self._output = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        self._decode = json.JSONDecoder(parse_float=parse_float).decode

    def read(self) -> Any:
        line = self._input.readline()
        if not line.endswith(b"\n"):
            raise EngineGone  # Half a line is all that is left of a killed Anabranch.
        try:
            return self._decode(line.decode("utf-8"))
        except ValueError as error:
            raise ProtocolError(f"this is no line of JSON ({error}): {line[:200]!r}") from None

    def write(self, text: str) -> None:
        left = memoryview(text.encode("utf-8"))
        try:
            while left:
                left = left[os.write(self._output, left) :]
        except OSError:
            raise EngineGone from None
