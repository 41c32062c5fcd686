"""What can be asked of the server."""

import time
from datetime import datetime
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Type, Union
from uuid import uuid4

from .._event import Event
from ._answers import Appended, CommandDone, Enqueued, Plan, SentCommand, TaskStatus, appended
from ._given import Expected, NewEvent, Query, ToStream, Unless, parameters, query_json, time_json
from ._http import Http, path
from ._problems import ApiError, CommandRefused, StillOpen, StillRunning
from ._tail import Tail

#: So many events are asked for at a time.
_PAGE = 500
#: So many seconds one request waits for a task.
_WAIT = 20
#: So many seconds pass before a plan that is running is looked at again: at first, and at most.
_LOOK = (0.05, 2.0)


class Client:
    """A client of the API. ``connect`` makes one. It may be used by several threads."""

    def __init__(self, http: Http) -> None:
        self._http = http

    # Events

    def append(
        self,
        stream: str,
        events: Union[NewEvent, Sequence[NewEvent]],
        *,
        expected: Expected = "any",
        idempotency_key: Optional[str] = None,
    ) -> Appended:
        """Appends events to one stream, all or none.

        A request that was not answered is sent again under its idempotency key, so what it appends is there once. Give
        a key of your own if your program, too, may send it again.
        """
        given = [events] if isinstance(events, NewEvent) else events
        return self.append_all([ToStream(stream, given, expected)], idempotency_key=idempotency_key)

    def append_all(
        self, streams: Sequence[ToStream], *, unless: Optional[Unless] = None, idempotency_key: Optional[str] = None
    ) -> Appended:
        """Appends to several streams, all or none, and only if nothing was stored that ``unless`` names."""
        body: Dict[str, Any] = {"streams": [one.as_json() for one in streams]}
        if unless is not None:
            body["unless"] = unless.as_json()
        return appended(self._http.post(path("append"), body, key=_key(idempotency_key)))

    def read_stream(
        self, stream: str, *, start: Optional[int] = None, backwards: bool = False, limit: Optional[int] = None
    ) -> Iterator[Event]:
        """The events of a stream, from a version on, page by page."""
        category, colon, name = stream.partition(":")
        if not colon:
            raise ValueError(f"{stream!r} is no stream; write Category:id")
        place, way = path("streams", category, name), _way(backwards)

        def page(at: Any, most: int) -> Any:
            return self._http.get(place, [("from", at), ("limit", most), ("direction", way)])

        return self._events(page, start, limit)

    def read(
        self,
        *,
        types: Sequence[str] = (),
        tags: Sequence[str] = (),
        categories: Sequence[str] = (),
        tenants: Sequence[str] = (),
        after: Optional[int] = None,
        backwards: bool = False,
        limit: Optional[int] = None,
    ) -> Iterator[Event]:
        """The events of the log with one of the types, all of the tags, one of the categories, one of the tenants."""
        wanted = _wanted(types, tags, categories, tenants)

        def page(at: Any, most: int) -> Any:
            rest = [("after", at), ("limit", most), ("direction", _way(backwards))]
            return self._http.get(path("events"), wanted + rest)

        return self._events(page, after, limit)

    def query(
        self,
        query: Query,
        *,
        categories: Sequence[str] = (),
        tenants: Sequence[str] = (),
        after: Optional[int] = None,
        backwards: bool = False,
        limit: Optional[int] = None,
    ) -> Iterator[Event]:
        """The events of the log that match one item of the query, page by page."""
        body = {"query": query_json(query), "categories": list(categories), "tenants": list(tenants)}

        def page(at: Any, most: int) -> Any:
            asked = {**body, "after": at, "limit": most, "direction": _way(backwards)}
            return self._http.post(path("query"), asked, again=True)

        return self._events(page, after, limit)

    def _events(self, page: Callable[[Any, int], Any], at: Any, limit: Optional[int]) -> Iterator[Event]:
        left = limit
        while left is None or left > 0:
            # A page may be shorter than was asked for, or empty, and still not be the last one.
            said = page(at, _PAGE if left is None else min(left, _PAGE))
            for raw in said["items"]:
                yield Event(raw)
            if left is not None:
                left -= len(said["items"])
            at = said["next"]
            if at is None:
                return

    def event(self, which: Union[int, str]) -> Event:
        """One event, by its position or its id."""
        return Event(self._http.get(path("events", str(which)))["event"])

    def tail(
        self,
        *,
        types: Sequence[str] = (),
        tags: Sequence[str] = (),
        categories: Sequence[str] = (),
        tenants: Sequence[str] = (),
        after: Optional[int] = None,
        silence: float = 45.0,
        on_interrupted: Optional[Callable[[ApiError], None]] = None,
    ) -> Tail:
        """Events as they are stored: after a position (0 is the beginning), or from now on.

        It connects again by itself whenever the connection is lost, after ``silence`` seconds without a word, or when the
        server drops it, and goes on where it was. ``on_interrupted`` is told each time. What will not pass by
        itself is raised.
        """
        return Tail(self._http, _wanted(types, tags, categories, tenants), after, silence, on_interrupted)

    # Tasks and commands

    def enqueue(
        self,
        pool: str,
        key: str,
        payload: Any = None,
        *,
        after: Optional[float] = None,
        at: Optional[datetime] = None,
        unique: Optional[str] = None,
        id: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> Enqueued:
        """Enqueues a task, to be run now, ``after`` so many seconds, or ``at`` a time."""
        body: Dict[str, Any] = {"key": key, "payload": payload}
        if after is not None:
            body["delay_ms"] = round(after * 1000)
        if at is not None:
            body["run_at"] = time_json(at)
        if unique is not None:
            body["unique"] = unique
        if id is not None:
            body["id"] = id
        said = self._http.post(path("pools", pool, "tasks"), body, key=_key(idempotency_key))
        return Enqueued(said["id"], said["is_new"])

    def task(self, id: str) -> TaskStatus:
        """All that is kept of a task."""
        return TaskStatus(self._http.get(path("tasks", id)))

    def wait(self, task: Union[str, Enqueued, SentCommand], timeout: Optional[float] = None) -> TaskStatus:
        """Waits until a task has ended, well or not: see its ``state``. After ``timeout`` seconds, ``StillOpen``."""
        place = path("tasks", task if isinstance(task, str) else task.id, "wait")
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _WAIT if deadline is None else min(_WAIT, max(0, deadline - time.monotonic()))
            seconds = -int(-left // 1)  # Upwards.
            status = TaskStatus(self._http.get(place, [("seconds", seconds)], seconds))
            if not status.is_open:
                return status
            if deadline is not None and time.monotonic() >= deadline:
                raise StillOpen(status)

    def send_command(
        self,
        workflow: str,
        instance: str,
        command: Any,
        *,
        id: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> SentCommand:
        """Sends a command to an instance of a workflow. Under the same ``id`` it is carried out once."""
        body = {"command": command}
        if id is not None:
            body["id"] = id
        place = path("workflows", workflow, instance, "commands")
        said = self._http.post(place, body, key=_key(idempotency_key))
        return SentCommand(said["command_id"], said["id"], said["is_new"])

    def wait_for_command(self, sent: SentCommand, timeout: Optional[float] = None) -> CommandDone:
        """Waits until a command is carried out. ``CommandRefused`` says that it was not, and why."""
        task = self.wait(sent.id, timeout)
        if task.masked:
            raise CommandRefused("masked", "this token may not see what came of it")
        if task.state != "done":
            raise CommandRefused(task.state, task.error)
        result = task.result
        if isinstance(result, dict) and "done" in result:
            return CommandDone(result["done"]["events"], result["done"]["version"])
        for outcome in ("rejected", "unreadable"):
            if isinstance(result, dict) and outcome in result:
                raise CommandRefused(outcome, result[outcome]["why"])
        raise CommandRefused(str(result), None)

    # Operations

    def plan(self, operation: Dict[str, Any]) -> Plan:
        """What an operation would do, counted: ``{"do": "pause", "consumer": "totals"}``. Nothing is changed.

        Those about many things need a filter (``"where"`` for tasks), or ``"all": True``.
        """
        return Plan(self._http.post(path("plans"), operation))

    def show_plan(self, plan: Union[str, Plan]) -> Plan:
        """A plan, and how far it is."""
        return Plan(self._http.get(path("plans", _id(plan))))

    def apply(self, plan: Union[str, Plan]) -> Plan:
        """Applies a plan. One that goes step by step may be ``running`` still: ``wait_for_plan`` waits for its end.

        It is not sent again by itself: after ``NoAnswer`` see what ``show_plan`` says.
        """
        return Plan(self._http.post(path("plans", _id(plan), "apply")))

    def wait_for_plan(self, plan: Union[str, Plan], timeout: Optional[float] = None) -> Plan:
        """Waits until a plan is not running any more: see its ``state``. After ``timeout`` seconds, ``StillRunning``.

        It goes on without you. One that nobody has applied is ``open``, and not waited for.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause, most = _LOOK
        while True:
            now = self.show_plan(plan)
            if now.state != "running":
                return now
            left = most if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise StillRunning(now)
            time.sleep(min(pause, left))
            pause = min(2 * pause, most)

    def cancel(self, plan: Union[str, Plan]) -> Plan:
        """Cancels a plan; what was done until then stays."""
        return Plan(self._http.post(path("plans", _id(plan), "cancel")))

    def journal(
        self, *, target: Optional[str] = None, plan: Union[str, Plan, None] = None, limit: Optional[int] = None
    ) -> Iterator[Dict[str, Any]]:
        """Who did what, the newest first, page by page."""
        before, left = None, limit
        asked = [("target", target), ("plan", None if plan is None else _id(plan))]
        while left is None or left > 0:
            most = _PAGE if left is None else min(left, _PAGE)
            said = self._http.get(path("journal"), [*asked, ("before", before), ("limit", most)])
            yield from said["items"]
            if left is not None:
                left -= len(said["items"])
            before = said["next"]
            if before is None:
                return

    def close(self) -> None:
        """Closes the connections that are kept. Tails are closed by themselves."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


def _key(given: Optional[str]) -> str:
    return str(uuid4()) if given is None else given


def _id(plan: Union[str, Plan]) -> str:
    return plan if isinstance(plan, str) else plan.id


def _way(backwards: bool) -> str:
    return "backwards" if backwards else "forwards"


def _wanted(
    types: Sequence[str], tags: Sequence[str], categories: Sequence[str], tenants: Sequence[str]
) -> List[Tuple[str, Any]]:
    return parameters(types=types, tags=tags, category=categories, tenant=tenants)
