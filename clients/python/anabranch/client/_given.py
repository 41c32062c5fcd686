"""What a request is made of: new events, conditions, queries."""

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from .._values import time_text

#: ``"any"``, ``"none"`` (the stream has no events yet) or the version of its last event.
Expected = Union[str, int]


@dataclass
class NewEvent:
    """An event that is to be appended: ``NewEvent("OrderPlaced", {"total": 40}, tags=["customer:7"])``."""

    type: str
    data: Any = None
    metadata: Optional[Dict[str, Any]] = None
    tags: Sequence[str] = ()
    tenant: Optional[str] = None
    customer: Optional[str] = None
    correlation: Optional[str] = None
    causation: Optional[str] = None
    schema_version: Optional[int] = None
    #: A UUID. Without it the idempotency key of the request gives it one.
    id: Optional[str] = None
    #: The W3C trace context of a span of your own.
    traceparent: Optional[str] = None

    def as_json(self) -> Dict[str, Any]:
        """As the API takes it."""
        said: Dict[str, Any] = {"type": self.type, "data": self.data}
        for name in _SELDOM:
            value = getattr(self, name)
            if value is not None:
                said[name] = value
        if self.tags:
            said["tags"] = _texts(self.tags, "tags")
        return said


_SELDOM = ("metadata", "tenant", "customer", "correlation", "causation", "schema_version", "id", "traceparent")


@dataclass
class ToStream:
    """What one stream gets in an append to several."""

    stream: str
    events: Sequence[NewEvent]
    expected: Expected = "any"

    def as_json(self) -> Dict[str, Any]:
        """As the API takes it."""
        events = [event.as_json() for event in self.events]
        return {"stream": self.stream, "events": events, "expected": self.expected}


@dataclass
class Match:
    """Events of one of these types (of any, if there are none) with all of these tags."""

    types: Sequence[str] = ()
    tags: Sequence[str] = ()


#: Events that match one of them; all events, if there are none.
Query = Sequence[Match]


def query_json(query: Query) -> Dict[str, Any]:
    """As the API takes it."""
    return {"items": [{"types": _texts(one.types, "types"), "tags": _texts(one.tags, "tags")} for one in query]}


@dataclass
class Unless:
    """The append fails if an event that matches was stored after this position: the last one that was read, or 0."""

    query: Query = field(default_factory=list)
    after: int = 0

    def as_json(self) -> Dict[str, Any]:
        """As the API takes it."""
        return {"query": query_json(self.query), "after": self.after}


def _texts(given: Sequence[str], what: str) -> List[str]:
    if isinstance(given, str):
        raise TypeError(f"{what} are a list of texts, not one text: [{given!r}]")
    return list(given)


def parameters(**lists: Sequence[str]) -> List[Tuple[str, Any]]:
    """Parameters that may be repeated."""
    return [(name, value) for name, given in lists.items() for value in _texts(given, name)]


def time_json(at: datetime) -> str:
    """A moment. One without a zone is one of this machine, as everywhere in Python."""
    return time_text(at.astimezone(timezone.utc))
