"""A server of a test, which can be killed and started again, behind a proxy that can lose what it answers."""

import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import unittest
from typing import Callable, List, Optional, Tuple

from anabranch.client import Client, connect

PATIENCE = 60.0


def until(what: str, is_so: Callable[[], bool]) -> None:
    """Waits for a condition."""
    never = threading.Event()
    for _ in range(int(PATIENCE / 0.01)):
        if is_so():
            return
        never.wait(0.01)
    raise AssertionError(f"waited a minute until {what}")


def _environment(name: str) -> str:
    found = os.environ.get(name)
    if not found:
        raise AssertionError(f"these tests need {name}: cargo xtask test -- -p anabranch-cli --test clients")
    return found


class Server:
    """``anabranch serve`` on a file of SQLite."""

    def __init__(self, needs_token: bool = True) -> None:
        self._command = _environment("ANABRANCH_TEST_COMMAND")
        self._folder = tempfile.TemporaryDirectory()
        self._url = f"sqlite://{os.path.join(self._folder.name, 'log.db')}"
        self._process: "Optional[subprocess.Popen[str]]" = None
        self.token = self.make_token("read,append,operate") if needs_token else None
        self.proxy = Proxy()
        self.start()

    def make_token(self, scopes: str) -> str:
        make = [self._command, "token", "make", "test", "--scope", scopes, "--url", self._url]
        return subprocess.run(make, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()

    def start(self) -> None:
        serve = [self._command, "serve", "--url", self._url, "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(serve, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        for line in process.stderr:
            found = re.search(r"served at http://127\.0\.0\.1:(\d+)", line)
            if found:
                break
        else:
            raise AssertionError("the server does not start")
        # What it says from now on is read, so that it never waits for a reader.
        self._reading = threading.Thread(target=process.stderr.read, daemon=True)
        self._reading.start()
        self._process = process
        self.proxy.target = int(found[1])

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Ends it. One that is told to end (SIGTERM) does so in good order."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait()
            self._reading.join()
            assert process.stderr is not None
            process.stderr.close()
            if how != signal.SIGKILL and process.returncode != 0:
                raise AssertionError(f"the server has ended with {process.returncode}")

    def connect(self, **options: float) -> Client:
        return connect(self.proxy.url, self.token, **options)  # type: ignore[arg-type]

    def close(self) -> None:
        self.proxy.close()
        self.stop()
        self._folder.cleanup()


class Proxy:
    """Passes connections on to where the server is, and loses answers if it is told to."""

    def __init__(self) -> None:
        self.target = 0
        #: So many answers are lost, though the server has given them; so much of each is passed on.
        self.loses = 0
        self.passes = 0
        #: Each connection is cut after so many bytes of answers: the first number, then the second, …
        self.cuts: List[int] = []
        #: How often somebody has come, and how many answers were lost.
        self.came = 0
        self.lost = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.came += 1
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        with self._lock:
            left = self.cuts.pop(0) if self.cuts else None
        back = threading.Thread(target=_pump, args=(client, server, lambda piece: (piece, False)), daemon=True)
        back.start()

        def answered(piece: bytes) -> Tuple[bytes, bool]:
            nonlocal left
            with self._lock:
                if self.loses > 0:
                    self.loses -= 1
                    self.lost += 1
                    return piece[: self.passes], True
            if left is None:
                return piece, False
            left -= len(piece)
            return (piece, False) if left > 0 else (piece[: len(piece) + left], True)

        _pump(server, client, answered)
        back.join()
        server.close()
        client.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _pump(source: socket.socket, sink: socket.socket, look: Callable[[bytes], Tuple[bytes, bool]]) -> None:
    try:
        while True:
            piece = source.recv(1 << 16)
            if not piece:
                break
            piece, ends = look(piece)
            sink.sendall(piece)
            if ends:
                break
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Served(unittest.TestCase):
    """A test with a server of its own."""

    def setUp(self) -> None:
        self.server = Server()
        self.addCleanup(self.server.close)
        self.client = self.server.connect()
        self.addCleanup(self.client.close)
