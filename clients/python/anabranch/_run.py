"""``run`` and ``run_tasks``: the conversation with Anabranch."""

import inspect
import sys
import traceback
from typing import Any, Callable, Dict, List, Optional

from ._errors import Abandoned, EngineGone, Failed, ProtocolError, failure, log
from ._event import Event, Task
from ._pipes import Pipes
from ._tx import Line, Tx
from ._values import encode

PROTOCOL = 1
CLIENT = "anabranch-python 0.1.0"

#: Handles what came with a batch, and answers what ``done`` says beside the number.
Work = Callable[[Dict[str, Any], Tx], str]


def run(
    handle: Optional[Callable[[Event, Tx], None]] = None,
    *,
    batch: Optional[Callable[[List[Event], Tx], None]] = None,
    parse_float: Optional[Callable[[str], Any]] = None,
) -> None:
    """Handles events until Anabranch closes standard input.

    ``handle`` gets one event at a time, ``batch`` all events of a batch. Numbers with a fraction are floats,
    unless ``parse_float=Decimal`` is given.
    """
    if (handle is None) == (batch is None):
        raise TypeError("run takes a handler of events, or batch=, a handler of whole batches")
    if handle is not None:
        work = events_one_by_one(_checked(handle, "event"))
    else:
        work = whole_batches(_checked(batch, "events"))
    _converse(work, parse_float)


def run_tasks(
    handle: Callable[[Task, Tx], Any],
    *,
    parse_float: Optional[Callable[[str], Any]] = None,
) -> None:
    """Handles tasks until Anabranch closes standard input. What the handler returns is kept with the task."""
    _converse(tasks(_checked(handle, "task")), parse_float)


def _checked(handle: Any, what: str) -> Any:
    if not callable(handle):
        raise TypeError(f"the handler is a function of ({what}, tx), not {handle!r}")
    for kind, found in (
        ("async", inspect.iscoroutinefunction(handle)),
        ("a generator", inspect.isgeneratorfunction(handle) or inspect.isasyncgenfunction(handle)),
    ):
        if found:
            raise TypeError(f"the handler is {kind}, and would do nothing when it is called; make it a plain function")
    return handle


def events_one_by_one(handle: Callable[[Event, Tx], Any]) -> Work:
    def work(message: Dict[str, Any], tx: Tx) -> str:
        for place, raw in enumerate(_given(message, "events", "run")):
            event = Event(raw, place)
            tx.for_event(event)
            if handle(event, tx) is not None:
                raise TypeError("a handler of events returns nothing; answers are given by tx")
            if tx._over is not None:
                break  # The handler caught what it should have let pass.
        return ""

    return work


def whole_batches(handle: Callable[[List[Event], Tx], Any]) -> Work:
    def work(message: Dict[str, Any], tx: Tx) -> str:
        events = [Event(raw, place) for place, raw in enumerate(_given(message, "events", "run"))]
        if handle(events, tx) is not None:
            raise TypeError("a handler of events returns nothing; answers are given by tx")
        return ""

    return work


def tasks(handle: Callable[[Task, Tx], Any]) -> Work:
    def work(message: Dict[str, Any], tx: Tx) -> str:
        given = _given(message, "tasks", "run_tasks")
        if len(given) != 1:
            raise ProtocolError(f"one task at a time was expected, not {len(given)}")
        tx.for_event(Event({}))  # What a task is about is its place, too.
        result = handle(Task(given[0], tx._save), tx)
        return "" if result is None else ',"result":' + encode(result)

    return work


def _given(message: Dict[str, Any], what: str, function: str) -> List[Dict[str, Any]]:
    given = message.get(what)
    if not isinstance(given, list):
        others = ", ".join(name for name in message if name != "batch")
        raise Failed(f"this program handles {what} (it calls {function}), and was given {others}", again=False)
    return given


def _converse(work: Work, parse_float: Optional[Callable[[str], Any]]) -> None:
    if sys.stdin is not None and sys.stdin.isatty():
        log("This program is started by Anabranch (`anabranch run FILE`), which speaks JSON with it.")
    pipes = Pipes(parse_float)
    try:
        hello = _greet(pipes)
        database, consumer = hello.get("database", ""), hello.get("consumer", "")
        while True:
            message = pipes.read()
            number = message.get("batch") if isinstance(message, dict) else None
            if not isinstance(number, int):
                raise ProtocolError(f"a batch was expected: {message!r:.200}")
            handle_batch(work, message, Tx(pipes, number, database, consumer))
    except EngineGone:
        return
    except ProtocolError as error:
        log(f"anabranch: {error}")
        sys.exit(1)


def _greet(line: Line) -> Dict[str, Any]:
    message = line.read()
    hello = message.get("hello") if isinstance(message, dict) else None
    if not isinstance(hello, dict):
        raise ProtocolError(f"a greeting was expected: {message!r:.200}")
    line.write(f'{{"hello":{{"protocol":{PROTOCOL},"client":"{CLIENT}"}}}}\n')
    if hello.get("protocol") != PROTOCOL:
        raise ProtocolError(
            f"Anabranch speaks version {hello.get('protocol')!r} of the protocol and this package version "
            f"{PROTOCOL}; install the package of the same version"
        )
    return hello


def handle_batch(work: Work, message: Dict[str, Any], tx: Tx) -> None:
    """One batch, from its events to ``done``, to ``failed``, or to nothing if it was abandoned."""
    more = ""
    failed: Optional[Exception] = None
    try:
        more = work(message, tx)
    except Abandoned as error:
        failed = Failed(str(error))  # Unless it is ours, as `_over` says.
    except Exception as error:
        failed = error
    if tx._over is not None:
        if not isinstance(tx._over, Abandoned):
            raise tx._over
        log(f"anabranch: batch {tx._batch} was abandoned: {tx._over}")
        return
    if isinstance(failed, ProtocolError):
        raise failed
    if failed is None:
        tx._finish(f'{{"done":{tx._batch}{more}}}\n')
        return
    if not isinstance(failed, Failed):
        log("".join(traceback.format_exception(type(failed), failed, failed.__traceback__)).rstrip())
    said: Dict[str, Any] = {"failed": tx._batch}
    event = failed.event.place if isinstance(failed, Failed) and failed.event else tx._event
    if event is not None:
        said["event"] = event
    said.update(failure(failed))
    tx._end(failed)  # Nothing of the batch is stored, so what was not written yet need not be.
    tx._finish(encode(said) + "\n")
