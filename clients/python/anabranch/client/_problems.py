"""What can go wrong with a request."""

from typing import Any, Dict, Mapping, Optional, Type


class ApiError(Exception):
    """What the client raises, whatever it is."""


class Problem(ApiError):
    """The server refused, and says why. Its subclasses tell the kinds apart."""

    def __init__(self, status: int, said: Mapping[str, Any], retry_after: Optional[float] = None) -> None:
        self.status = status
        #: Stable: one of docs/errors.md. ``http_502`` and the like, if not the server but a proxy answered.
        self.code: str = said.get("code") or f"http_{status}"
        self.title: str = said.get("title") or self.code
        #: In a sentence or two.
        self.detail: str = said.get("detail") or self.title
        #: What else the server says, such as ``stream``, ``expected`` and ``actual`` of a conflict.
        self.members: Dict[str, Any] = {name: said[name] for name in said if name not in _STANDARD}
        #: In so many seconds it may be tried again.
        self.retry_after = retry_after
        super().__init__(f"{self.detail} ({self.code})")


_STANDARD = ("type", "title", "status", "detail", "code")


class Invalid(Problem):
    """The request cannot be understood or carried out as it is."""


class NotAuthenticated(Problem):
    """There is no token, or it is not good any more."""


class NotAllowed(Problem):
    """The token may not do this."""


class NotFound(Problem):
    """There is no such thing, or not for this token."""


class Conflict(Problem):
    """It is not so any more as the request expects: ``stream_conflict``, ``condition_failed``, ``plan_outdated``."""


class Unavailable(Problem):
    """Not now: the server or its database is away, or has too much to do."""


class NoAnswer(ApiError):
    """No answer came, or half of one; or the server, or a proxy, did not wait for it any longer."""

    def __init__(self, why: str, *, may_have_happened: bool = True, idempotency_key: Optional[str] = None) -> None:
        #: False if the request was certainly not carried out.
        self.may_have_happened = may_have_happened
        #: With this key the same request can be sent again: it is carried out once.
        self.idempotency_key = idempotency_key
        super().__init__(why)


class NotTheApi(ApiError):
    """What answers there is not the API, or cannot prove who it is."""


class StillOpen(ApiError, TimeoutError):
    """The task has not ended in the time that was given to it."""

    def __init__(self, task: Any) -> None:
        #: How it stands.
        self.task = task
        super().__init__(f"task {task.id} is {task.state} still; wait for it again")


class StillRunning(ApiError, TimeoutError):
    """The plan is not carried out in the time that was given to it. It goes on."""

    def __init__(self, plan: Any) -> None:
        #: How far it is.
        self.plan = plan
        super().__init__(f"plan {plan.id} is running still; wait for it again")


class CommandRefused(ApiError):
    """A command was not carried out."""

    def __init__(self, outcome: str, why: Optional[str]) -> None:
        #: ``rejected`` by the workflow, ``unreadable`` for it, ``cancelled``; or how its task ended.
        self.outcome = outcome
        self.why = why
        super().__init__(f"the command was not carried out: {outcome}" + (f": {why}" if why else ""))


_KINDS: Dict[int, Type[Problem]] = {401: NotAuthenticated, 403: NotAllowed, 404: NotFound, 409: Conflict}
_AWAY = (429, 503)
#: The codes of answers that only say that there is none: the server has run out of time, or a proxy has.
UNANSWERED = ("request_too_slow", "http_502", "http_504")


def problem(status: int, said: Mapping[str, Any], retry_after: Optional[float]) -> Problem:
    """The error of an answer."""
    kind = _KINDS.get(status)
    if kind is None:
        kind = Unavailable if status in _AWAY else Invalid if status < 500 else Problem
    return kind(status, said, retry_after)
