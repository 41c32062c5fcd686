"""A tail of the log: it goes on where it was, without a gap and without a double."""

import socket
import threading
from http.client import HTTPException, HTTPResponse
from types import TracebackType
from typing import Any, Callable, Iterator, List, Optional, Tuple, Type

from .._event import Event
from ._frames import Frame, Frames
from ._http import Http, pauses
from ._problems import ApiError, NoAnswer, NotTheApi, Problem, Unavailable

#: What ends a tail that would meet the same event again.
_FINAL = "unwritable"
_PLACE = "/v1/tail"


class Dropped(NoAnswer):
    """The server has ended the tail with a word, such as ``too_slow`` or ``server_stops``."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"the tail was dropped: {reason}: {detail}")
        self.reason = reason


class Tail(Iterator[Event]):
    """Events as they are stored. ``for event in tail`` ends when the tail is closed, by any thread.

    It connects with the first event that is asked for, or by ``open``.
    """

    def __init__(
        self,
        http: Http,
        parameters: List[Tuple[str, Any]],
        after: Optional[int],
        silence: float,
        on_interrupted: Optional[Callable[[ApiError], None]],
    ) -> None:
        self._http, self._parameters, self._silence = http, parameters, silence
        self._on_interrupted = on_interrupted
        #: The place up to which all was handed out. Begin there (``after``) to go on later, in another process.
        self.position = after
        #: Whether all that was there had been handed out at some time.
        self.caught_up = False
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._socket: Optional[socket.socket] = None
        self._response: Optional[HTTPResponse] = None
        self._frames: Iterator[Frame] = iter(())
        self._parser = Frames()
        self._ready: List[Event] = []
        self._pauses = pauses()

    def open(self) -> int:
        """Waits until the tail stands in the log, and says where: events that are stored from now on will come."""
        while self.position is None:
            event = self._step()
            if event is not None:
                self._ready.append(event)
                self.position = event.position - 1
            if self._closed.is_set():
                raise NoAnswer("the tail was closed before it had begun", may_have_happened=False)
        return self.position

    def __iter__(self) -> "Tail":
        return self

    def __next__(self) -> Event:
        while not self._closed.is_set():
            event = self._ready.pop() if self._ready else self._step()
            if event is not None:
                self.position = event.position
                return event
        raise StopIteration

    def _step(self) -> Optional[Event]:
        """One frame, or one more try to connect."""
        try:
            if self._response is None:
                self._connect()
            return self._take(self._frame())
        except (NoAnswer, Unavailable) as error:
            self._disconnect()
            if not self._closed.is_set():
                self._interrupted(error)
        except ApiError:
            self._disconnect()
            raise
        return None

    def _interrupted(self, error: ApiError) -> None:
        if self._on_interrupted is not None:
            self._on_interrupted(error)
        pause = next(self._pauses)
        if isinstance(error, Problem):
            pause = max(pause, error.retry_after or 0.0)
        self._closed.wait(pause)

    def _connect(self) -> None:
        connection = self._http.connection(self._silence)
        with self._lock:
            self._socket = connection.sock
        if self._closed.is_set():
            raise NoAnswer("the tail is closed", may_have_happened=False)
        headers = {"accept": "text/event-stream"}
        parameters = self._parameters
        if self.position is not None:
            headers["last-event-id"] = str(self.position)
        try:
            response = self._http.send(connection, "GET", _PLACE, parameters, None, headers)
            kind = (response.getheader("content-type") or "").partition(";")[0].strip()
            if response.status != 200:
                self._http.answer(response, response.read(), f"GET {_PLACE}")
        except (OSError, HTTPException) as error:
            connection.close()
            raise NoAnswer(f"GET {_PLACE}: no answer: {error}") from error
        if kind != "text/event-stream":
            raise NotTheApi(f"GET {_PLACE} is answered by {kind or 'nothing'}, not by events; is this the URL of the API?")
        self._response, self._frames = response, iter(())
        self._parser = Frames()

    def _frame(self) -> Frame:
        response = self._response
        assert response is not None
        while True:
            for frame in self._frames:
                return frame
            try:
                piece = response.read1(1 << 16)
                if not piece:
                    raise NoAnswer("the connection of the tail has ended")
                # In one go, since half of an iterator would be lost with an error.
                self._frames = iter(list(self._parser.feed(piece)))
            except (OSError, HTTPException) as error:
                raise NoAnswer(f"the connection of the tail is lost: {str(error) or type(error).__name__}") from error
            except ValueError as error:
                raise NotTheApi(f"the tail sends what is no event: {error}") from error

    def _take(self, frame: Frame) -> Optional[Event]:
        at = self._at(frame)
        if frame.name == "event":
            self._pauses = pauses()
            # What was handed out already is not handed out again, whatever is between here and the server.
            if self.position is not None and at is not None and at <= self.position:
                return None
            return Event(self._decoded(frame.data))
        if frame.name == "dropped":
            said = self._decoded(frame.data)
            reason, detail = said.get("reason", ""), said.get("detail", "")
            self._stands(at)
            if reason == _FINAL:
                raise Problem(500, said)
            raise Dropped(reason, detail)
        if frame.name == "caught_up":
            self._pauses = pauses()
            self.caught_up = True
        self._stands(at)
        return None

    def _at(self, frame: Frame) -> Optional[int]:
        if frame.id is None:
            return None
        if not frame.id.isdigit():
            raise NotTheApi(f"the tail stands at {frame.id!r}, which is no position")
        return int(frame.id)

    def _stands(self, at: Optional[int]) -> None:
        if at is not None:
            self.position = at if self.position is None else max(at, self.position)

    def _decoded(self, text: str) -> Any:
        try:
            return self._http.decode(text)
        except ValueError as error:
            raise NotTheApi(f"the tail sends what is no JSON: {error}") from error

    def _disconnect(self) -> None:
        response, self._response, self._frames = self._response, None, iter(())
        with self._lock:
            held, self._socket = self._socket, None
        if response is not None:
            response.close()
        if held is not None:
            held.close()

    def close(self) -> None:
        """Ends it, also for a thread that waits for an event."""
        self._closed.set()
        with self._lock:
            held = self._socket
        if held is not None:
            try:
                held.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # The other side was faster.

    def __enter__(self) -> "Tail":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
        self._disconnect()
