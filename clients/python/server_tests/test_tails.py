"""Tails of a server that is killed, stopped and cut off: no gap, no double."""

import itertools
import signal
import threading
import unittest
from typing import List

from anabranch.client import ApiError, Conflict, Dropped, NewEvent, NotAuthenticated, connect
from serving import Served, until


class Tails(Served):
    def append(self, numbers: "range") -> None:
        for number in numbers:
            self.client.append("N:1", NewEvent("Even" if number % 2 == 0 else "Odd", number))

    def test_it_goes_on_when_the_server_is_killed(self) -> None:
        why: List[ApiError] = []
        got: List[int] = []
        with self.server.connect() as reader, reader.tail(on_interrupted=why.append) as tail:
            self.assertEqual(tail.open(), 0)
            appending = threading.Thread(target=self.append, args=(range(150),))
            appending.start()
            for event in tail:
                got.append(event.data)
                if len(got) in (20, 60, 100):
                    # In the middle of appends and of the tail.
                    self.server.stop(signal.SIGKILL)
                    self.server.start()
                if len(got) == 150:
                    break
            appending.join()
            self.assertEqual(got, list(range(150)))
            self.assertGreaterEqual(len(why), 3)
            self.client.append("N:1", NewEvent("Last", "last"))
            self.assertEqual(next(tail).data, "last")

    def test_it_goes_on_wherever_it_is_cut_off(self) -> None:
        self.append(range(40))
        # Before and in the head of the answer, and in the middle of events.
        self.server.proxy.cuts = [1, 100, 250, *range(700, 1400, 29)]
        why: List[ApiError] = []
        with self.server.connect() as reader, reader.tail(after=0, on_interrupted=why.append) as tail:
            got = [event.data for event in itertools.islice(tail, 40)]
        self.assertEqual(got, list(range(40)))
        self.assertGreater(len(why), 15)

    def test_it_is_told_that_the_server_stops(self) -> None:
        why: List[ApiError] = []
        with self.server.connect() as reader, reader.tail(on_interrupted=why.append) as tail:
            tail.open()
            # It ends while nobody reads: what it has said is there for whoever reads on.
            self.server.stop(signal.SIGTERM)
            self.server.start()
            self.append(range(1))
            self.assertEqual(next(tail).data, 0)
        dropped = [error for error in why if isinstance(error, Dropped)]
        self.assertEqual([error.reason for error in dropped], ["server_stops"], why)

    def test_another_process_goes_on_where_one_has_ended(self) -> None:
        self.append(range(10))
        with self.client.tail(after=0) as first:
            got = [next(first).data for _ in range(4)]
            place = first.position
        with self.client.tail(after=place) as second:
            got += [next(second).data for _ in range(6)]
        self.assertEqual(got, list(range(10)))

    def test_only_what_is_wanted_comes(self) -> None:
        with self.client.tail(types=["Odd"], categories=["N"]) as tail:
            self.assertEqual(tail.open(), 0)
            self.append(range(6))
            self.assertEqual([next(tail).data for _ in range(3)], [1, 3, 5])

    def test_it_ends_when_another_thread_closes_it(self) -> None:
        tail = self.client.tail()
        tail.open()
        got: List[int] = []
        reading = threading.Thread(target=lambda: got.extend(event.data for event in tail))
        reading.start()
        self.append(range(1))
        until("it has come", lambda: got == [0])
        tail.close()
        reading.join()
        # Also one that waits for a server.
        self.server.stop()
        why: List[ApiError] = []
        waiting = self.client.tail(after=0, on_interrupted=why.append)
        reading = threading.Thread(target=lambda: got.extend(event.data for event in waiting))
        reading.start()
        until("it has tried", lambda: len(why) > 1)
        waiting.close()
        reading.join()
        self.assertEqual(got, [0])

    def test_what_will_not_pass_is_raised(self) -> None:
        with connect(self.server.proxy.url, "anb_wrong") as client, client.tail() as tail:
            with self.assertRaises(NotAuthenticated):
                next(tail)
        with self.client.tail(after=10_000) as beyond, self.assertRaises(Conflict) as refused:
            next(beyond)
        self.assertEqual(refused.exception.code, "log_fell_back")


if __name__ == "__main__":
    unittest.main()
