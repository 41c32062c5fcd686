"""The client against a server that is played by the test, and behaves as proxies and failing servers do."""

import http.server
import json
import threading
import unittest
from typing import Any, Dict, List, Optional, Tuple

from anabranch.client import (
    ApiError,
    Conflict,
    Dropped,
    NewEvent,
    NoAnswer,
    NotTheApi,
    Problem,
    Unavailable,
    connect,
)
from anabranch.client._frames import Frame, Frames

JSON = "application/json"
PROBLEM = "application/problem+json"
SSE = "text/event-stream"
EMPTY: Dict[str, Any] = {"items": [], "next": None}

Answer = Tuple[int, str, Any, Dict[str, str]]


def answer(status: int, body: Any, kind: str = JSON, **headers: str) -> Answer:
    text = body if isinstance(body, str) else json.dumps(body)
    return status, kind, text, {name.replace("_", "-"): value for name, value in headers.items()}


class Played(unittest.TestCase):
    def setUp(self) -> None:
        self.answers: List[Answer] = []
        self.seen: List[Tuple[str, Dict[str, str]]] = []
        #: Streams stay open until the test is over.
        self.over = threading.Event()
        self.stays_open = False
        test = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def respond(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                test.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                status, kind, text, headers = test.answers.pop(0)
                body = text.encode("utf-8")
                self.send_response(status)
                self.send_header("content-type", kind)
                for name, value in headers.items():
                    self.send_header(name, value)
                if kind != SSE:
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                    return
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(body), body) if body else b"")
                if test.stays_open and not test.answers:
                    test.over.wait()
                self.close_connection = True
                try:
                    self.wfile.write(b"0\r\n\r\n")
                except OSError:
                    pass

            do_GET = do_POST = respond

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.addCleanup(self.over.set)
        self.url = f"http://127.0.0.1:{server.server_address[1]}/mounted/"
        self.client = connect(self.url, "anb_secret")
        self.addCleanup(self.client.close)

    def read(self, *answers: Answer, **options: Any) -> List[Any]:
        self.answers = list(answers)
        with connect(self.url, "anb_secret", **options) as client:
            return list(client.read())

    def test_what_passes_by_itself_is_waited_for(self) -> None:
        away = answer(503, {"code": "unavailable", "detail": "away"}, PROBLEM, retry_after="0")
        busy = answer(429, {"code": "too_many_requests"}, PROBLEM)
        gateway = answer(502, "<html>", "text/html")
        self.assertEqual(self.read(away, busy, gateway, answer(200, EMPTY)), [])
        self.assertEqual(len(self.seen), 4)
        later = answer(503, {"code": "unavailable"}, PROBLEM, retry_after="60")
        with self.assertRaises(Unavailable) as refused:
            self.read(later, retry_for=5.0)
        self.assertEqual((refused.exception.code, refused.exception.retry_after), ("unavailable", 60))

    def test_an_append_keeps_its_key_and_other_problems_are_final(self) -> None:
        stored = {"events": [{"id": "x", "version": 1, "position": 1}], "position": 1}
        self.answers = [answer(503, {}, PROBLEM), answer(200, stored)]
        self.client.append("A:1", NewEvent("X"))
        keys = [headers["idempotency-key"] for _, headers in self.seen]
        self.assertEqual((len(keys), len(set(keys))), (2, 1))
        self.assertEqual(self.seen[0][0], "/mounted/v1/append")
        self.answers = [answer(500, {"code": "database_error", "detail": "no"}, PROBLEM)]
        with self.assertRaises(Problem) as failed:
            self.client.append("A:1", NewEvent("X"))
        self.assertEqual((failed.exception.code, failed.exception.status), ("database_error", 500))
        self.answers = [answer(409, {"code": "stream_conflict", "actual": 7}, PROBLEM)]
        with self.assertRaises(Conflict) as conflict:
            self.client.append("A:1", NewEvent("X"))
        self.assertEqual(conflict.exception.members, {"actual": 7})

    def test_what_was_not_waited_for_may_have_happened(self) -> None:
        slow = answer(503, {"code": "request_too_slow", "detail": "it did not finish in 30 s"}, PROBLEM, retry_after="2")
        for unanswered in (slow, answer(502, "<html>", "text/html"), answer(504, "<html>", "text/html")):
            self.seen.clear()
            self.answers = [unanswered]
            with self.assertRaises(NoAnswer) as sent_once:
                self.client.apply("0199d3a0-5f5e-7c3a-9d0e-6a1f6c1f0a11")
            self.assertTrue(sent_once.exception.may_have_happened)
            self.assertEqual(len(self.seen), 1, "it has no key, so it is not sent again")
            stored = {"events": [{"id": "x", "version": 1, "position": 1}], "position": 1}
            self.answers = [unanswered, answer(200, stored)]
            self.client.append("A:1", NewEvent("X"))
            # On a connection that is kept it is not sent again at once, without a pause and without a word.
            self.answers = [unanswered, answer(503, {"code": "unavailable", "detail": "away"}, PROBLEM, retry_after="60")]
            with self.assertRaises(NoAnswer) as given_up:
                self.client.append("A:1", NewEvent("X"))
            keys = [headers["idempotency-key"] for _, headers in self.seen[-2:]]
            self.assertEqual(keys, [given_up.exception.idempotency_key] * 2)

    def test_what_is_not_the_api_is_called_so(self) -> None:
        for other, said in (
            (answer(200, "<html>", "text/html"), "text/html"),
            (answer(302, "", "text/html", location="https://elsewhere.example/"), "elsewhere"),
            (answer(200, "{", JSON), "no JSON"),
        ):
            with self.assertRaisesRegex(NotTheApi, said):
                self.read(other)
        self.assertEqual(len(self.seen), 3, "a redirect is not followed: the token is for this server")
        with self.assertRaises(Problem) as proxy:
            self.read(answer(418, "no", "text/plain"))
        self.assertEqual(proxy.exception.code, "http_418")

    def test_wrong_urls_and_tokens_are_refused_at_once(self) -> None:
        for url in ("127.0.0.1:7070", "ftp://x", "http://", "http://u:p@x", "http://x?y"):
            with self.assertRaises(ValueError):
                connect(url)
        for token in ("anb_x\n", "anb_ü"):
            with self.assertRaises(ValueError) as wrong:
                connect("http://x", token)
            self.assertNotIn("anb_", str(wrong.exception))

    def events(self, *frames: str) -> List[Tuple[int, Optional[str]]]:
        """Where a tail stands after each event, given these connections."""
        self.answers = [answer(200, frame, SSE) for frame in frames]
        self.why: List[ApiError] = []
        self.stays_open = True
        found = []
        with self.client.tail(after=1, silence=0.3, on_interrupted=self.why.append) as tail:
            for event in tail:
                found.append((event.position, event.data))
                if event.data == "last":
                    break
        return found

    def frame(self, position: int, data: str) -> str:
        return f"id: {position}\nevent: event\ndata: {json.dumps({'position': position, 'data': data})}\n\n"

    def test_a_dropped_tail_goes_on_after_its_last_id(self) -> None:
        dropped = 'id: 8\nevent: dropped\ndata: {"reason": "too_slow", "detail": "slow"}\n\n'
        heartbeat = ": heartbeat\nid: 12\n\n"
        half = self.frame(20, "half")[:-1]
        found = self.events(
            self.frame(5, "a") + dropped,
            self.frame(8, "double") + heartbeat + half,
            self.frame(20, "half") + self.frame(21, "last"),
        )
        self.assertEqual(found, [(5, "a"), (20, "half"), (21, "last")])
        self.assertEqual([headers["last-event-id"] for _, headers in self.seen], ["1", "8", "12"])
        self.assertEqual([type(error) for error in self.why], [Dropped, NoAnswer])
        assert isinstance(self.why[0], Dropped)
        self.assertEqual(self.why[0].reason, "too_slow")

    def test_a_tail_without_a_word_is_lost(self) -> None:
        self.answers = [answer(200, "", SSE)]
        self.stays_open = True
        why: List[ApiError] = []

        def again(error: ApiError) -> None:
            why.append(error)
            self.answers.append(answer(200, self.frame(2, "last"), SSE))

        with self.client.tail(after=1, silence=0.1, on_interrupted=again) as tail:
            self.assertEqual(next(tail).data, "last")
        self.assertEqual([type(error) for error in why], [NoAnswer])

    def test_an_event_that_cannot_be_sent_ends_the_tail(self) -> None:
        with self.assertRaises(Problem) as ended:
            self.events('id: 8\nevent: dropped\ndata: {"reason": "unwritable", "code": "invalid_json", "detail": "x"}\n\n')
        self.assertEqual(ended.exception.code, "invalid_json")


class Reading(unittest.TestCase):
    def test_frames_come_out_whole_however_they_are_cut(self) -> None:
        text = ': hello\n\nid: 1\r\nevent: event\r\ndata: {"ü":\r\ndata: 1}\r\n\r\n: heartbeat\nid: 7\n\ndata\n\nevent: x\n\n'
        whole = [Frame("1", "event", '{"ü":\n1}'), Frame("7", None, "")]
        sent = text.encode("utf-8")
        for size in (1, 2, 3, 7, len(sent)):
            frames = Frames()
            found = [one for at in range(0, len(sent), size) for one in frames.feed(sent[at : at + size])]
            self.assertEqual(found, whole, size)
