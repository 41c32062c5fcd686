"""The HTTP API of ``anabranch serve``: append, read, tail, enqueue, command, operate.

| module | subject |
|---|---|
| ``_client`` | ``Client``: what can be asked of the server |
| ``_given`` | what a request is made of: new events, conditions, queries |
| ``_answers`` | what the server answers, beside events |
| ``_tail`` | a tail that goes on where it was |
| ``_frames`` | server-sent events, from pieces of bytes |
| ``_http`` | connections, and what is sent again |
| ``_problems`` | what can go wrong |
"""

import ssl
from typing import Any, Callable, Optional

from .._event import Event
from ._answers import Appended, CommandDone, Enqueued, Plan, SentCommand, Stored, TaskStatus
from ._client import Client
from ._given import Expected, Match, NewEvent, Query, ToStream, Unless
from ._http import Http
from ._problems import (
    ApiError,
    CommandRefused,
    Conflict,
    Invalid,
    NoAnswer,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    NotTheApi,
    Problem,
    StillOpen,
    StillRunning,
    Unavailable,
)
from ._tail import Dropped, Tail


def connect(
    url: str,
    token: Optional[str] = None,
    *,
    timeout: float = 35.0,
    retry_for: float = 30.0,
    parse_float: Optional[Callable[[str], Any]] = None,
    tls: Optional[ssl.SSLContext] = None,
) -> Client:
    """A client of the API at this URL. Nothing is sent before it is used.

    A request that gets no answer within ``timeout`` seconds, or finds the server or its database away, is sent again for
    ``retry_for`` seconds, if that cannot do anything twice. ``parse_float=Decimal`` keeps the digits of numbers with a
    fraction. ``tls`` replaces the usual settings, for a certificate of your own, say.
    """
    return Client(Http(url, token, timeout, retry_for, parse_float, tls))


__all__ = [
    "ApiError",
    "Appended",
    "Client",
    "CommandDone",
    "CommandRefused",
    "Conflict",
    "Dropped",
    "Enqueued",
    "Event",
    "Expected",
    "Invalid",
    "Match",
    "NewEvent",
    "NoAnswer",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "NotTheApi",
    "Plan",
    "Problem",
    "Query",
    "SentCommand",
    "StillOpen",
    "StillRunning",
    "Stored",
    "Tail",
    "TaskStatus",
    "ToStream",
    "Unavailable",
    "Unless",
    "connect",
]
