"""What a handler may ask for: statements, queries, events, tasks."""

import re
from datetime import datetime, timedelta
from typing import Any, Dict, List, Optional, Protocol, Sequence, Tuple, Union
from uuid import UUID

from ._errors import YEAR, Abandoned, EngineGone, ProtocolError
from ._event import Event, Row
from ._values import blame, encode, encode_values, text, time_text

#: So many answers wait in memory before they are written; Anabranch reads them while the handler goes on.
_WRITE_AT = 256
#: Programs with more statements than this make their texts; those are not worth keeping.
_MOST_STATEMENTS = 1000

_executes: Dict[str, str] = {}


class Line(Protocol):
    """The other side."""

    def write(self, text: str) -> None: ...

    def read(self) -> Any: ...


class Tx:
    """The transaction of a batch. What is asked for here is stored together with the cursor, or not at all."""

    __slots__ = ("database", "consumer", "_line", "_batch", "_event", "_tail", "_said", "_over")

    def __init__(self, line: Line, batch: int, database: str, consumer: str) -> None:
        #: ``sqlite`` or ``postgres``.
        self.database = database
        self.consumer = consumer
        self._line = line
        self._batch = batch
        self._said: List[str] = []
        self._over: Optional[BaseException] = None
        self.for_event(None)

    def execute(self, sql: str, *values: Any) -> None:
        """Executes a statement with ``$1``, ``$2``, … for its values, which are passed one by one."""
        if self._over is not None:
            raise self._over
        if len(values) == 1 and isinstance(values[0], (list, tuple)):
            _check_only(sql, values[0])
        try:
            said = (_executes.get(sql) or _opened(sql)) + encode_values(values) + self._tail
        except Exception as error:
            raise blame(values, error) from None
        self._said.append(said)
        if len(self._said) >= _WRITE_AT:
            self._write()

    def query(self, sql: str, *values: Any) -> List[Row]:
        """The rows of a query. It sees what was executed before it."""
        if self._over is not None:
            raise self._over
        if len(values) == 1 and isinstance(values[0], (list, tuple)):
            _check_only(sql, values[0])
        try:
            said = '{"query":' + text(sql) + ',"values":[' + encode_values(values) + self._tail
        except Exception as error:
            raise blame(values, error) from None
        answer = self._ask(said)
        try:
            places: Dict[str, int] = {}
            for place, name in enumerate(answer["columns"]):
                places.setdefault(name, place)
            return [Row(row, places) for row in answer["rows"]]
        except (KeyError, TypeError):
            raise self._end(ProtocolError(f"rows were expected: {answer!r:.200}")) from None

    def query_first(self, sql: str, *values: Any) -> Optional[Row]:
        """The first row of a query, if there is one."""
        rows = self.query(sql, *values)
        return rows[0] if rows else None

    def append(
        self,
        stream: str,
        type: str,
        data: Any = None,
        *,
        expected: Union[None, str, int] = None,
        schema_version: Optional[int] = None,
        metadata: Any = None,
        correlation: Optional[str] = None,
        causation: Optional[str] = None,
        tenant: Optional[str] = None,
        customer: Optional[str] = None,
        tags: Optional[Sequence[str]] = None,
        id: Union[None, str, UUID] = None,
        traceparent: Optional[str] = None,
    ) -> None:
        """Appends an event to the log. ``expected`` is ``"any"``, ``"none"`` or the version of the stream.

        It goes on with the trace of the event that it is for, unless ``traceparent`` names a span of your own.
        """
        more = {
            "expected": expected,
            "schema_version": schema_version,
            "metadata": metadata,
            "correlation": correlation,
            "causation": causation,
            "tenant": tenant,
            "customer": customer,
            "tags": None if tags is None else list(tags),
            "id": id,
            "traceparent": traceparent,
        }
        self._say("append", {"stream": stream, "type": type, "data": data}, more)

    def enqueue(
        self,
        pool: str,
        key: str,
        payload: Any = None,
        *,
        after: Union[None, float, timedelta] = None,
        at: Optional[datetime] = None,
        unique: Optional[str] = None,
        id: Union[None, str, UUID] = None,
        traceparent: Optional[str] = None,
    ) -> None:
        """Enqueues a task: ``after`` seconds, or ``at`` a time; once, if ``unique`` is open already.

        It goes on with the trace of the event that it is for, unless ``traceparent`` names a span of your own.
        """
        if isinstance(after, timedelta):
            after = after.total_seconds()
        if at is not None and at.tzinfo is None:
            raise ValueError("at needs a time zone: datetime.now(timezone.utc), not datetime.now()")
        when = None if at is None else time_text(at)
        more = {"after": after, "at": when, "unique": unique, "id": id, "traceparent": traceparent}
        self._say("enqueue", {"pool": pool, "key": key, "payload": payload}, more)

    def for_event(self, event: Optional[Event]) -> None:
        """In a handler of whole batches: which event the next statements, events and tasks are about."""
        self._event = None if event is None else event.place
        about = "" if event is None else f',"event":{event.place}'
        self._tail = f'],"batch":{self._batch}{about}}}\n'

    def _say(self, what: str, said: Dict[str, Any], more: Dict[str, Any]) -> None:
        if self._over is not None:
            raise self._over
        if self._event is None:
            raise RuntimeError(f"say first which event {what} is about: tx.for_event(event)")
        said.update((name, value) for name, value in more.items() if value is not None)
        _check(what, said)
        self._said.append(f'{{"{what}":{encode(said)},"batch":{self._batch},"event":{self._event}}}\n')

    def _save(self, checkpoint: Any) -> None:
        if self._over is not None:
            raise self._over
        answer = self._ask(f'{{"save":{encode(checkpoint)},"batch":{self._batch}}}\n')
        if not (isinstance(answer, dict) and answer.get("saved") is True):
            raise self._end(ProtocolError(f"`saved` was expected: {answer!r:.200}"))

    def _ask(self, said: str) -> Any:
        self._said.append(said)
        try:
            self._write()
            answer = self._line.read()
        except (EngineGone, ProtocolError) as error:
            raise self._end(error) from None
        if isinstance(answer, dict) and "abandoned" in answer:
            raise self._end(Abandoned(str(answer.get("error", "the transaction is lost"))))
        return answer

    def _write(self) -> None:
        said, self._said = "".join(self._said), []
        self._line.write(said)

    def _end(self, error: BaseException) -> BaseException:
        """From now on each call raises this, in case that the handler catches it."""
        self._said = []
        self._over = error
        return error

    def _finish(self, last: str) -> None:
        """The last message of the batch. A handler that kept the transaction cannot use it any more."""
        self._said.append(last)
        said = "".join(self._said)
        self._end(RuntimeError("this batch is over; use the tx that the handler was given"))
        self._line.write(said)


_TEXTS = ("stream", "type", "pool", "key", "unique", "correlation", "causation", "tenant", "customer")


def _check(what: str, said: Dict[str, Any]) -> None:
    """What Anabranch would take for a broken program is a mistake of the handler, and is refused where it is made."""
    for name in _TEXTS:
        if not isinstance(said.get(name, ""), str):
            raise TypeError(f"{what}: {name} is a text, not {said[name]!r}")
    if not all(isinstance(tag, str) for tag in said.get("tags", ())):
        raise TypeError(f"{what}: tags are texts, not {said['tags']!r}")
    expected = said.get("expected", "any")
    if expected not in ("any", "none") and (type(expected) is not int or expected < 0):
        raise ValueError(f'{what}: expected is "any", "none" or a version, not {expected!r}')
    if not 0 <= said.get("after", 0) <= YEAR:
        raise ValueError(f"{what}: after is a number of seconds, a year at most, not {said['after']!r}; at= is a time")
    trace = said.get("traceparent")
    if trace is not None and not (isinstance(trace, str) and _TRACE.fullmatch(trace)):
        raise ValueError(f"{what}: traceparent is a W3C trace context (00-TRACE-SPAN-FLAGS), not {trace!r}")
    if "id" in said:
        said["id"] = UUID(str(said["id"]))


#: A W3C trace context of version 00: neither id is all zero.
_TRACE = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_QUOTED = re.compile(r"--[^\n]*|/\*.*?\*/|'[^']*'", re.DOTALL)
_PLACE = re.compile(r"\$(\d+)")


def _check_only(sql: str, value: Union[List[Any], Tuple[Any, ...]]) -> None:
    """Other libraries take the values as one list or tuple. Here that is one value, an array: it must be meant so."""
    places = [int(place) for place in _PLACE.findall(_QUOTED.sub("", sql))]
    if isinstance(value, tuple) or max(places, default=0) != 1:
        raise TypeError("pass values one by one, not as a list: tx.execute(sql, a, b)")


def _opened(sql: str) -> str:
    if len(_executes) >= _MOST_STATEMENTS:
        _executes.clear()
    opened = _executes[sql] = '{"execute":' + text(sql) + ',"values":['
    return opened
