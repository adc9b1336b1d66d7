"""Open streams: listed while they are open, counted, and bounded."""

from __future__ import annotations

import pytest

from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.resources.streams import OpenStreams, StreamKind
from forebay.errors.reasons import Reason
from tests.support.refusals import refusal

PEER = "ipv4:192.0.2.1:5000"


def test_a_stream_is_listed_while_it_is_open_even_if_it_fails() -> None:
    streams = OpenStreams(2, FakeClock())

    def fail() -> None:
        with streams.opened(StreamKind.PUBLISH, PEER, "anna") as one:
            assert list(streams) == [one]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert (list(streams), len(streams)) == ([], 0)


def test_more_streams_than_the_bound_are_refused() -> None:
    streams = OpenStreams(1, FakeClock())
    first = streams.opened(StreamKind.PUBLISH, PEER, "anna")

    with first, refusal(Reason.TOO_MANY_STREAMS), streams.opened(StreamKind.REPLAY, PEER, "anna"):
        raise AssertionError("it is open")

    with streams.opened(StreamKind.REPLAY, PEER, "anna"):
        assert len(streams) == 1


def test_a_stream_counts_its_records_and_their_rate() -> None:
    clock = FakeClock()
    streams = OpenStreams(1, clock)

    with streams.opened(StreamKind.DELIVER, PEER, "anna", sink="orders") as one:
        for _ in range(5):
            one.count(10, 100)
            clock.advance(1.0)

        assert (one.sink, one.records, one.size) == ("orders", 50, 500)
        assert one.records_per_s == pytest.approx(10.0)
