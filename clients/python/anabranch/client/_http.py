"""Requests and their answers: connections, and what is sent again."""

import http.client
import json
import random
import ssl
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple
from urllib.parse import quote, urlencode, urlsplit

from .._values import encode
from ._problems import UNANSWERED, NoAnswer, NotTheApi, Problem, Unavailable, problem

Parameters = Sequence[Tuple[str, Any]]

#: So many connections are kept for later.
_KEPT = 8
#: The first pause and the longest one, in seconds.
_PAUSES = (0.05, 5.0)
#: What an answer in plain text looks like to those who expect an encrypted one.
_PLAIN = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")


def path(*parts: str) -> str:
    """Parts of a path, whatever characters they have."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def pauses() -> Iterator[float]:
    """Seconds to wait: twice as long each time, and never quite as long as others wait."""
    pause, longest = _PAUSES
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, longest)


class Http:
    """The place where the API is served."""

    def __init__(
        self,
        url: str,
        token: Optional[str],
        timeout: float,
        retry_for: float,
        parse_float: Optional[Callable[[str], Any]],
        context: Optional[ssl.SSLContext],
    ) -> None:
        place = urlsplit(url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise ValueError(f"{url!r} is no URL of a server; write http://127.0.0.1:7070")
        if place.username or place.query or place.fragment:
            raise ValueError("the URL has a user, a query or a fragment; a token is given apart")
        if token is not None and (not token.isascii() or not token.isprintable()):
            raise ValueError("the token has characters that no token has; is a line feed at its end?")
        self._secure, self._host, self._port = place.scheme == "https", place.hostname, place.port
        self._base = place.path.rstrip("/")
        self._context = context or (ssl.create_default_context() if self._secure else None)
        # A request without a token has to prove that no web page sends it: none may send this header elsewhere.
        self._headers = {"accept": "application/json", "x-anabranch": "1"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._timeout, self._retry_for = timeout, retry_for
        self.decode = json.JSONDecoder(parse_float=parse_float).decode
        self._lock = threading.Lock()
        self._idle: List[http.client.HTTPConnection] = []
        self._closed = False

    def get(self, place: str, parameters: Parameters = (), seconds: float = 0) -> Any:
        """What is there. ``seconds``: the server may take so long."""
        return self._call("GET", place, parameters, None, {}, True, seconds)

    def post(self, place: str, body: Any = None, *, key: Optional[str] = None, again: bool = False) -> Any:
        """It is sent again only with an idempotency key, or if it changes nothing (``again``)."""
        headers = {} if key is None else {"idempotency-key": key}
        try:
            return self._call("POST", place, (), body, headers, again or key is not None, 0)
        except NoAnswer as error:
            if key is not None and error.may_have_happened:
                said = f"{error}. It may have been done; send it again with idempotency_key={key!r}: it is done once"
                raise NoAnswer(said, idempotency_key=key) from error
            raise

    def _call(
        self,
        method: str,
        place: str,
        parameters: Parameters,
        body: Any,
        headers: Dict[str, str],
        again: bool,
        seconds: float,
    ) -> Any:
        sent = None if body is None else encode(body).encode("utf-8")
        deadline, happened = None, False
        for pause in pauses():
            try:
                return self._once(method, place, parameters, sent, headers, again, self._timeout + seconds)
            except (NoAnswer, Unavailable) as error:
                if isinstance(error, NoAnswer):
                    # What was sent first may have been done, though the last try did not reach anybody.
                    happened = error.may_have_happened = happened or error.may_have_happened
                    pause_at_least = 0.0
                else:
                    pause_at_least = error.retry_after or 0.0
                now = time.monotonic()
                deadline = now + self._retry_for if deadline is None else deadline
                pause = max(pause, pause_at_least)
                if again and now + pause <= deadline:
                    time.sleep(pause)
                    continue
                if happened and isinstance(error, Unavailable):
                    raise NoAnswer(f"{self._named(method, place)}: no answer, and then: {error}") from error
                raise
        raise AssertionError("pauses do not end")

    def _once(
        self,
        method: str,
        place: str,
        parameters: Parameters,
        body: Optional[bytes],
        headers: Dict[str, str],
        again: bool,
        timeout: float,
    ) -> Any:
        # One that was idle may be closed by now. What is sent once only gets a new one.
        connection, lost = self._take() if again else None, False
        if connection is not None:
            connection.timeout = timeout
            connection.sock.settimeout(timeout)
            try:
                return self._exchange(connection, method, place, parameters, body, headers)
            except NoAnswer as error:
                # Whoever has answered that there is no answer has not closed it.
                if isinstance(error.__cause__, Problem):
                    raise
                lost = True
        try:
            return self._exchange(self.connection(timeout), method, place, parameters, body, headers)
        except NoAnswer as error:
            error.may_have_happened = error.may_have_happened or lost
            raise

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        place: str,
        parameters: Parameters,
        body: Optional[bytes],
        headers: Dict[str, str],
    ) -> Any:
        try:
            response = self.send(connection, method, place, parameters, body, headers)
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NoAnswer(f"{self._named(method, place)}: no answer: {_said(error)}") from error
        if response.will_close or not self._keep(connection):
            connection.close()
        return self.answer(response, text, self._named(method, place))

    def connection(self, timeout: float) -> http.client.HTTPConnection:
        """A new connection."""
        connection: http.client.HTTPConnection
        if self._closed:
            raise ValueError("this client is closed; connect again")
        if self._secure:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise NotTheApi(f"{self._host} cannot prove who it is: {error}") from error
        except OSError as error:
            connection.close()
            if isinstance(error, ssl.SSLError) and error.reason in _PLAIN:
                said = f"{self._host}:{connection.port} does not speak https, as far as can be told; is it http://… ?"
                raise NotTheApi(said) from error
            why = f"{self._host}:{connection.port} cannot be reached: {_said(error)}"
            raise NoAnswer(why, may_have_happened=False) from error
        return connection

    def send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        place: str,
        parameters: Parameters = (),
        body: Optional[bytes] = None,
        headers: Optional[Dict[str, str]] = None,
    ) -> http.client.HTTPResponse:
        """Sends a request, and reads the head of its answer."""
        given = [(name, value) for name, value in parameters if value is not None]
        target = self._base + place + (f"?{urlencode(given)}" if given else "")
        sent = {**self._headers, **(headers or {})}
        if body is not None:
            sent["content-type"] = "application/json"
        connection.request(method, target, body, sent)
        response = connection.getresponse()
        if response.length is None and not response.chunked and response.version > 10:
            # http.client takes a head that was cut off for a whole one.
            raise http.client.IncompleteRead(b"")
        return response

    def answer(self, response: http.client.HTTPResponse, text: bytes, what: str) -> Any:
        """What an answer holds, or the problem that it is."""
        kind = (response.getheader("content-type") or "").partition(";")[0].strip()
        if 200 <= response.status < 300:
            if kind != "application/json":
                raise NotTheApi(f"{what} is answered by {kind or 'nothing'}, not by JSON; is this the URL of the API?")
            return self._decoded(text, what)
        if response.status < 400:
            where = response.getheader("location")
            raise NotTheApi(f"{what} is answered by {response.status}: go to {where}; connect to the API itself")
        said = self._decoded(text, what) if kind == "application/problem+json" else {}
        if not said:
            said = {"detail": f"{what} is answered by {response.status} {response.reason}, and not by the API"}
        error = problem(response.status, said, _seconds(response.getheader("retry-after")))
        if error.code in UNANSWERED:
            # Somebody has waited for the answer as long as it may take, and it may have been done all the same.
            raise NoAnswer(f"{what}: {error}") from error
        raise error

    def _decoded(self, text: bytes, what: str) -> Any:
        try:
            return self.decode(text.decode("utf-8"))
        except ValueError as error:
            raise NotTheApi(f"{what} is answered by what is no JSON: {error}") from error

    def _named(self, method: str, place: str) -> str:
        return f"{method} {self._host}{self._base}{place}"

    def _take(self) -> Optional[http.client.HTTPConnection]:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _keep(self, connection: http.client.HTTPConnection) -> bool:
        with self._lock:
            keeps = not self._closed and len(self._idle) < _KEPT and connection.sock is not None
            if keeps:
                self._idle.append(connection)
            return keeps

    def close(self) -> None:
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for connection in idle:
            connection.close()


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _seconds(header: Optional[str]) -> Optional[float]:
    return float(header) if header is not None and header.isdigit() else None


__all__ = ["Http", "Parameters", "Problem", "path", "pauses"]
