"""How a handler fails, and how a batch ends."""

import os
import sys
import traceback
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Dict, Optional, Union

if TYPE_CHECKING:
    from ._event import Event


#: The longest wait, in seconds.
YEAR = 366 * 86_400


class Failed(Exception):
    """Fails the event or the task with this text.

    ``again=False``: it is not tried again. ``again=2.5``: not before that many seconds have passed. Otherwise
    the retry policy decides. A handler of whole batches names the event that failed with ``event=``.
    """

    def __init__(
        self,
        message: str,
        *,
        again: Union[bool, float, timedelta] = True,
        event: "Optional[Event]" = None,
    ) -> None:
        super().__init__(message)
        if isinstance(again, timedelta):
            again = again.total_seconds()
        if not isinstance(again, bool) and not 0 <= again <= YEAR:
            raise ValueError(f"again is False or a number of seconds, a year at most, not {again!r}")
        self.again = again
        self.event = event


class Abandoned(BaseException):
    """The database has refused a statement or the transaction is lost: this batch is over.

    Let it pass. It is no ``Exception``, so that ``except Exception`` does not catch it.
    """


class EngineGone(BaseException):
    """Anabranch has closed a pipe: the program ends."""


class ProtocolError(Exception):
    """Anabranch said something that this version does not understand."""


def failure(error: Exception) -> Dict[str, Any]:
    """What a ``failed`` message says of an exception."""
    if isinstance(error, Failed):
        said: Dict[str, Any] = {"error": printable(str(error))}
        if error.again is False:
            said["again"] = "never"
        elif error.again is not True:
            said["again"] = error.again
        return said
    return {"error": printable(_in_one_line(error))}


def _in_one_line(error: Exception) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be had)"
    name = type(error).__name__
    said = f"{name}: {text}" if text else name
    # The last frame of the handler's own code; what it handed to this package is its mistake, not ours.
    here = os.path.dirname(__file__)
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if os.path.dirname(frame.filename) != here:
            return f"{said} ({os.path.basename(frame.filename)}:{frame.lineno}, in {frame.name})"
    return said


def printable(text: str) -> str:
    """The text without halves of characters, which UTF-8 cannot say."""
    return text.encode("utf-8", "replace").decode("utf-8")


def log(text: str) -> None:
    """A line for the log of Anabranch. One that cannot be written is lost, and nothing else is."""
    try:
        sys.stderr.write(printable(text) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass
