"""Events by a server: appended, read, refused."""

import unittest
from decimal import Decimal

from anabranch.client import (
    Conflict,
    Invalid,
    Match,
    NewEvent,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    ToStream,
    Unless,
    connect,
)
from serving import Served, Server


class Events(Served):
    def test_they_come_back_as_they_were_given(self) -> None:
        given = NewEvent(
            "OrderPlaced",
            {"total": 2**70, "ü": [Decimal("0.10"), None]},
            {"by": "ada"},
            ["customer:7", "shop:1"],
            tenant="acme",
            customer="7",
            correlation="c",
            causation="d",
            schema_version=3,
            id="018f7b86-0000-7000-8000-000000000001",
            traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        )
        appended = self.client.append("Order:a/b:c", given, expected="none")
        self.assertEqual((appended.events[0].version, appended.position), (1, appended.events[0].position))
        with connect(self.server.proxy.url, self.server.token, parse_float=Decimal) as exact:
            (event,) = exact.read_stream("Order:a/b:c")
        self.assertEqual((event.stream, event.version, event.position), ("Order:a/b:c", 1, appended.position))
        for name in ("type", "data", "metadata", "tags", "tenant", "customer", "correlation", "causation", "id"):
            self.assertEqual(getattr(event, name), getattr(given, name), name)
        self.assertEqual(str(event.data["ü"][0]), "0.10")
        self.assertEqual((event.schema_version, event.traceparent, event.masked), (3, given.traceparent, False))
        self.assertEqual(self.client.event(event.position).id, event.id)
        self.assertEqual(self.client.event(event.id).position, event.position)

    def test_pages_are_read_to_the_end(self) -> None:
        for start in range(0, 1200, 400):
            events = [NewEvent("Even" if n % 2 == 0 else "Odd", n) for n in range(start, start + 400)]
            self.client.append("N:1", events)
        every = list(range(1200))
        self.assertEqual([event.data for event in self.client.read_stream("N:1")], every)
        self.assertEqual([event.data for event in self.client.read_stream("N:1", backwards=True)], every[::-1])
        self.assertEqual([event.data for event in self.client.read_stream("N:1", start=1199)], every[1198:])
        self.assertEqual([event.data for event in self.client.read(types=["Odd"])], every[1::2])
        self.assertEqual([event.data for event in self.client.read(limit=700)], every[:700])
        self.assertEqual([event.data for event in self.client.read(backwards=True, limit=3)], [1199, 1198, 1197])
        both = [Match(types=["Odd"]), Match(types=["Even"])]
        self.assertEqual([event.data for event in self.client.query(both)], every)
        self.assertEqual([event.data for event in self.client.query(both, after=1150, limit=2)], [1150, 1151])
        self.assertEqual([event.data for event in self.client.query(both, backwards=True)], every[::-1])
        self.assertEqual(list(self.client.read(categories=["Other"])), [])

    def test_conflicts_say_what_a_caller_needs(self) -> None:
        self.client.append("A:1", [NewEvent("X"), NewEvent("X")])
        with self.assertRaises(Conflict) as refused:
            self.client.append("A:1", NewEvent("X"), expected=1)
        self.assertEqual((refused.exception.code, refused.exception.status), ("stream_conflict", 409))
        members = refused.exception.members
        self.assertEqual((members["stream"], members["expected"], members["actual"]), ("A:1", 1, 2))

    def test_a_condition_holds_for_several_streams(self) -> None:
        taken = [Match(["NameTaken"], ["name:ada"])]
        claim = [ToStream("User:1", [NewEvent("NameTaken", tags=["name:ada"])], "none"), ToStream("Log:1", [NewEvent("Seen")])]
        first = self.client.append_all(claim, unless=Unless(taken, 0))
        self.assertEqual([event.version for event in first.events], [1, 1])
        other = [ToStream("User:2", [NewEvent("NameTaken", tags=["name:ada"])])]
        with self.assertRaises(Conflict) as refused:
            self.client.append_all(other, unless=Unless(taken, 0))
        self.assertEqual(refused.exception.code, "condition_failed")
        self.assertEqual(refused.exception.members["position"], first.events[0].position)
        self.client.append_all(other, unless=Unless(taken, first.position))

    def test_problems_are_told_apart(self) -> None:
        for token, error, code in (
            ("anb_wrong", NotAuthenticated, "not_authenticated"),
            (None, NotAuthenticated, "not_authenticated"),
            (self.server.make_token("read"), NotAllowed, "not_allowed"),
        ):
            with connect(self.server.proxy.url, token) as client:
                with self.assertRaises(error) as refused:
                    client.append("A:1", NewEvent("X"))
                self.assertEqual(refused.exception.code, code)
        with self.assertRaises(NotFound) as missing:
            self.client.event(99)
        self.assertEqual((missing.exception.code, missing.exception.status), ("no_such_event", 404))
        with self.assertRaises(Invalid) as wrong:
            self.client.append("A:1", NewEvent(""))
        self.assertEqual(wrong.exception.status, 400)
        self.assertEqual(list(self.client.read()), [])

    def test_bodies_are_masked(self) -> None:
        self.client.append("A:1", NewEvent("X", "secret"))
        with connect(self.server.proxy.url, self.server.make_token("read-masked")) as client:
            (event,) = client.read()
        self.assertEqual((event.data, event.masked), (None, True))


class Open(unittest.TestCase):
    def test_a_server_without_tokens_takes_what_is_sent(self) -> None:
        server = Server(needs_token=False)
        self.addCleanup(server.close)
        with server.connect() as client:
            client.append("A:1", NewEvent("X", 1))
            self.assertEqual([event.data for event in client.read()], [1])


if __name__ == "__main__":
    unittest.main()
