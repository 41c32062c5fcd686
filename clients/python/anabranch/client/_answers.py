"""What the server answers, beside events."""

from typing import Any, Dict, List, NamedTuple, Optional


class Stored(NamedTuple):
    """An event that was stored."""

    id: str
    #: Its place in its stream, from 1.
    version: int
    #: Its place in the log.
    position: int


class Appended(NamedTuple):
    """What an append has stored, in the order in which it was given."""

    events: List[Stored]
    #: That of the last one.
    position: int


def appended(said: Dict[str, Any]) -> Appended:
    events = [Stored(one["id"], one["version"], one["position"]) for one in said["events"]]
    return Appended(events, said["position"])


class Enqueued(NamedTuple):
    """A task that is stored, and waits for a worker."""

    id: str
    #: Whether it was not there before.
    is_new: bool


class SentCommand(NamedTuple):
    """A command that is stored, and waits for a worker that has the code."""

    #: Which command it is.
    command_id: str
    #: The task that carries it out.
    id: str
    #: Whether it was not there before.
    is_new: bool


class CommandDone(NamedTuple):
    """A command that was carried out."""

    #: How many events came of it.
    events: int
    #: What the stream of the instance stands at.
    version: int


_OPEN = ("ready", "scheduled", "held")


class TaskStatus:
    """How a task stands."""

    __slots__ = ("raw",)

    def __init__(self, raw: Dict[str, Any]) -> None:
        #: All that the server says.
        self.raw = raw

    @property
    def id(self) -> str:
        """A UUID."""
        return self.raw["id"]  # type: ignore[no-any-return]

    @property
    def pool(self) -> str:
        return self.raw["pool"]  # type: ignore[no-any-return]

    @property
    def key(self) -> str:
        return self.raw["key"]  # type: ignore[no-any-return]

    @property
    def state(self) -> str:
        """``ready``, ``scheduled``, ``held``; ``done``, ``dead``, ``compensated``, ``skipped``, ``cancelled``."""
        return self.raw["state"]  # type: ignore[no-any-return]

    @property
    def is_open(self) -> bool:
        """Whether it may still be run."""
        return self.state in _OPEN

    @property
    def attempts(self) -> int:
        return self.raw.get("attempts", 0)  # type: ignore[no-any-return]

    @property
    def result(self) -> Any:
        """What its handler returned, once it is ``done``."""
        return self.raw.get("result")

    @property
    def error(self) -> Optional[str]:
        """Why its last attempt failed."""
        return self.raw.get("error")

    @property
    def masked(self) -> bool:
        """Whether results are kept from this token."""
        return bool(self.raw.get("masked"))

    def __repr__(self) -> str:
        return f"TaskStatus({self.raw.get('id')} {self.raw.get('pool')} {self.raw.get('state')})"


class Plan:
    """What an operation would do; once it is applied, how far it is."""

    __slots__ = ("raw",)

    def __init__(self, raw: Dict[str, Any]) -> None:
        #: All that the server says.
        self.raw = raw

    @property
    def id(self) -> str:
        """A UUID."""
        return self.raw["id"]  # type: ignore[no-any-return]

    @property
    def says(self) -> str:
        """What it would do, in one sentence."""
        return self.raw["effect"]["says"]  # type: ignore[no-any-return]

    @property
    def counts(self) -> Dict[str, int]:
        """What it would do, counted."""
        return self.raw["effect"]["counts"]  # type: ignore[no-any-return]

    @property
    def state(self) -> str:
        """``open``, ``running``; ``done``, ``failed``, ``cancelled``."""
        return self.raw["state"]  # type: ignore[no-any-return]

    @property
    def problem(self) -> Optional[str]:
        """Why it could not be carried out to its end."""
        return self.raw.get("problem")

    def __repr__(self) -> str:
        return f"Plan({self.raw.get('id')} {self.raw.get('verb')} {self.raw.get('target')} {self.raw.get('state')})"
