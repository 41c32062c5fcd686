"""Events, tasks and rows as handlers see them."""

from datetime import datetime, timezone
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union


class Event:
    """An event of the log."""

    __slots__ = ("raw", "place")

    def __init__(self, raw: Dict[str, Any], place: int = 0) -> None:
        #: The whole event, as ``anabranch tail --json`` prints it.
        self.raw = raw
        #: Its place in the batch, from 0.
        self.place = place

    @property
    def position(self) -> int:
        """Its place in the log."""
        return self.raw["position"]  # type: ignore[no-any-return]

    @property
    def stream(self) -> str:
        """``Order:ord-1``"""
        return self.raw["stream"]  # type: ignore[no-any-return]

    @property
    def category(self) -> str:
        """``Order`` of ``Order:ord-1``"""
        return self.raw["stream"].partition(":")[0]  # type: ignore[no-any-return]

    @property
    def stream_id(self) -> str:
        """``ord-1`` of ``Order:ord-1``"""
        return self.raw["stream"].partition(":")[2]  # type: ignore[no-any-return]

    @property
    def version(self) -> int:
        """Its place in its stream, from 1."""
        return self.raw["version"]  # type: ignore[no-any-return]

    @property
    def id(self) -> str:
        """A UUID."""
        return self.raw["id"]  # type: ignore[no-any-return]

    @property
    def type(self) -> str:
        return self.raw["type"]  # type: ignore[no-any-return]

    @property
    def schema_version(self) -> int:
        return self.raw.get("schema_version", 1)  # type: ignore[no-any-return]

    @property
    def data(self) -> Any:
        return self.raw["data"]

    @property
    def metadata(self) -> Any:
        return self.raw.get("metadata")

    @property
    def masked(self) -> bool:
        """Whether data and metadata are kept from this reader: they are None then. Only the HTTP API does so."""
        return bool(self.raw.get("masked"))

    @property
    def correlation(self) -> Optional[str]:
        return self.raw.get("correlation")

    @property
    def causation(self) -> Optional[str]:
        return self.raw.get("causation")

    @property
    def tenant(self) -> Optional[str]:
        return self.raw.get("tenant")

    @property
    def customer(self) -> Optional[str]:
        return self.raw.get("customer")

    @property
    def traceparent(self) -> Optional[str]:
        """The W3C trace context of its append, if that was traced."""
        return self.raw.get("traceparent")

    @property
    def tags(self) -> List[str]:
        return self.raw.get("tags") or []

    @property
    def recorded_at(self) -> datetime:
        """When it was appended, in UTC."""
        return _moment(self.raw["recorded_at"])

    def __repr__(self) -> str:
        return f"Event({self.raw.get('position')} {self.raw.get('stream')} {self.raw.get('type')})"


def _moment(text: str) -> datetime:
    """A time of Anabranch: in UTC, with up to six digits after the second. (Python 3.9 reads three or six.)"""
    whole, _, fraction = text.rstrip("Z").partition(".")
    moment = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S")
    return moment.replace(microsecond=int(fraction[:6].ljust(6, "0")), tzinfo=timezone.utc)


class Task:
    """A task of a pool."""

    __slots__ = ("raw", "_save")

    def __init__(self, raw: Dict[str, Any], save: Callable[[Any], None]) -> None:
        self.raw = raw
        self._save = save

    @property
    def id(self) -> str:
        """A UUID."""
        return self.raw["id"]  # type: ignore[no-any-return]

    @property
    def key(self) -> str:
        """Tasks of one key are done in order."""
        return self.raw["key"]  # type: ignore[no-any-return]

    @property
    def payload(self) -> Any:
        return self.raw["payload"]

    @property
    def attempt(self) -> int:
        """From 1."""
        return self.raw["attempt"]  # type: ignore[no-any-return]

    @property
    def idempotency_key(self) -> str:
        """The same in each attempt. Pass it on to the service that you call."""
        return self.raw["idempotency_key"]  # type: ignore[no-any-return]

    @property
    def checkpoint(self) -> Any:
        """What was saved last, in this attempt or in an earlier one."""
        return self.raw.get("checkpoint")

    @property
    def traceparent(self) -> Optional[str]:
        """The W3C trace context in which it is run, if it is traced. Pass it on to the service that you call."""
        return self.raw.get("traceparent")

    def save(self, checkpoint: Any) -> None:
        """Stores a checkpoint at once: the next attempt finds it."""
        self._save(checkpoint)
        self.raw["checkpoint"] = checkpoint

    def __repr__(self) -> str:
        return f"Task({self.raw.get('id')} {self.raw.get('key')})"


class Row(Sequence[Any]):
    """A row of a query: ``row[0]``, ``row["total"]``, ``total, count = row``."""

    __slots__ = ("_values", "_places")

    def __init__(self, values: List[Any], places: Dict[str, int]) -> None:
        self._values = values
        self._places = places

    def __getitem__(self, key: Union[int, str, slice]) -> Any:
        if isinstance(key, str):
            place = self._places.get(key)
            if place is None:
                raise KeyError(f"no column {key!r}; there are {', '.join(self._places)}")
            return self._values[place]
        return self._values[key]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def as_dict(self) -> Dict[str, Any]:
        return {name: self._values[place] for name, place in self._places.items()}

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Row):
            return self._values == other._values and self._places == other._places
        if isinstance(other, (list, tuple)):
            return self._values == list(other)
        return NotImplemented

    def __repr__(self) -> str:
        return f"Row({self.as_dict()!r})"
