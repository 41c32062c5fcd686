"""Handlers without a database: hand them events, look at what they answer.

    said = rehearse(handle, [event("OrderPlaced", {"total": 40})])
    assert said == [{"execute": "INSERT …", "values": ["1", 40], "event": 0}]
"""

import json
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ._event import Event, Task
from ._run import _checked, events_one_by_one, tasks, whole_batches
from ._tx import Tx
from ._values import encode

#: Answers a query, given its text and its values, with rows by column names.
Answer = Callable[[str, List[Any]], Sequence[Mapping[str, Any]]]


def event(
    type: str,
    data: Any = None,
    *,
    stream: str = "Test:1",
    position: int = 1,
    version: int = 1,
    **more: Any,
) -> Dict[str, Any]:
    """An event as Anabranch hands it over. ``more`` are the other fields, such as ``customer`` and ``tags``."""
    raw = {
        "position": position,
        "stream": stream,
        "version": version,
        "id": f"00000000-0000-7000-8000-{position:012}",
        "type": type,
        "schema_version": 1,
        "data": data,
        "metadata": None,
        "correlation": None,
        "causation": None,
        "tenant": None,
        "customer": None,
        "tags": [],
        "recorded_at": "2026-01-01T00:00:00Z",
    }
    unknown = more.keys() - raw.keys() - {"traceparent"}  # Only what is traced has that.
    if unknown:
        raise TypeError(f"an event has no {', '.join(sorted(unknown))}")
    return {**raw, **more}


def rehearse(
    handle: Optional[Callable[[Event, Tx], None]] = None,
    events: Sequence[Dict[str, Any]] = (),
    *,
    batch: Optional[Callable[[List[Event], Tx], None]] = None,
    answer: Optional[Answer] = None,
    database: str = "sqlite",
) -> List[Dict[str, Any]]:
    """What the handler answers to these events, as messages. What it raises is raised."""
    work = events_one_by_one(_checked(handle, "event")) if handle else whole_batches(_checked(batch, "events"))
    line = _Script(answer)
    tx = Tx(line, 1, database, "test")
    work({"batch": 1, "events": [json.loads(encode(it)) for it in events]}, tx)
    if isinstance(tx._over, BaseException):
        raise tx._over
    tx._finish("")
    return line.said


def rehearse_task(
    handle: Callable[[Task, Tx], Any],
    payload: Any = None,
    *,
    key: str = "test",
    attempt: int = 1,
    checkpoint: Any = None,
    answer: Optional[Answer] = None,
    database: str = "sqlite",
) -> List[Dict[str, Any]]:
    """What the handler answers to a task. The last message is ``done``, with the result."""
    line = _Script(answer)
    tx = Tx(line, 1, database, "test")
    number = "00000000-0000-7000-8000-000000000001"
    task = {"id": number, "key": key, "payload": payload, "attempt": attempt}
    task.update(idempotency_key=number, checkpoint=checkpoint)
    more = tasks(_checked(handle, "task"))({"batch": 1, "tasks": [task]}, tx)
    tx._finish(f'{{"done":1{more}}}\n')
    return line.said


class _Script:
    """The other side, with the answers of the test."""

    def __init__(self, answer: Optional[Answer]) -> None:
        self.said: List[Dict[str, Any]] = []
        self._answer = answer

    def write(self, text: str) -> None:
        # `splitlines` would also split at line ends that texts may have.
        for line in text.split("\n"):
            if line:
                message = json.loads(line)
                message.pop("batch", None)
                self.said.append(message)

    def read(self) -> Any:
        asked = self.said[-1]
        if "save" in asked:
            return {"saved": True}
        if self._answer is None:
            raise AssertionError(f"the handler asks {asked['query']!r}; give rehearse an answer=")
        rows = self._answer(asked["query"], asked["values"])
        columns = list(rows[0]) if rows else []
        return {"columns": columns, "rows": [[row[name] for name in columns] for row in rows]}
