"""Bounds of a sink on disk with two records a page and six in all, as its consumer follows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, Gap, Overflow
from tests.support.calls.eventually import stats_when
from tests.support.calls.streams import PublishCall

SINK = "cache"


class Cache:
    """Pages of two records, and what is taken from them."""

    def __init__(self, client: Client, call: PublishCall) -> None:
        self.client = client
        self._call = call
        self._sequence = 0

    def append(self, *numbers: int) -> None:
        """Append numbers as one page."""
        self._call.publish(self._sequence, [b"%d" % number for number in numbers])
        self._sequence += 1

    def take(self) -> int:
        """Deliver one record and settle it; the page after it is trimmed before this returns."""
        [record] = self.client.pull(SINK, max_records=1, wait_s=10.0)
        self.client.ack(SINK, [record])
        return int(record.value)

    def pending(self) -> list[int]:
        """Records that are not settled, in order."""
        watermark = self.client.sinks.stats(SINK).subscriptions[0].partitions[0].watermark
        steps = self.client.replay(SINK, partition=0, start=watermark, on_gap="yield")
        return [int(step.value) for step in steps if not isinstance(step, Gap)]


@contextmanager
def cache(broker: BrokerServer, client: Client) -> Iterator[Cache]:
    client.sinks.create(SINK, buffer_page_size=2, max_disk_cache=6, overflow=Overflow.DROP_OLDEST)
    with PublishCall(broker.endpoint, SINK, "writer") as call:
        yield Cache(client, call)


def e3(cache: Cache) -> list[int]:
    """Append and take in turns; returns what was taken."""
    taken = []
    cache.append(0, 1)
    taken.append(cache.take())
    cache.append(2, 3)
    taken.append(cache.take())
    cache.append(4, 5)
    cache.append(6)
    taken.append(cache.take())
    return taken


def test_settled_records_make_room_so_that_no_record_is_dropped(broker: BrokerServer, client: Client) -> None:
    """P=2 D=6: append 0,1; take 0; append 2,3; take 1; append 4,5,6; take 2: pending 4, in order."""
    with cache(broker, client) as one:
        taken = e3(one)
        stats = client.sinks.stats(SINK)

        assert (taken, one.pending(), stats.pending()) == ([0, 1, 2], [3, 4, 5, 6], 4)
        assert stats.partitions[0].dropped == {}
        assert stats.identity_ok


def test_the_oldest_whole_pages_go_in_one_run_and_the_newest_are_last(broker: BrokerServer, client: Client) -> None:
    """Append 7 to 14, so that the disk overflows: one contiguous oldest run, counted, with a gap marker."""
    with cache(broker, client) as one:
        e3(one)
        for first in range(7, 15, 2):
            one.append(first, first + 1)
        stats = stats_when(client, SINK, lambda found: found.records <= 6)
        [partition] = stats.partitions
        [account] = stats.subscriptions[0].partitions
        steps = list(client.replay(SINK, partition=0, start=3, on_gap="yield"))
        gone = [step for step in steps if isinstance(step, Gap)]

        assert steps[: len(gone)] == gone, "the drops come first, in one run"
        assert [gap.last_offset + 1 for gap in gone[:-1]] == [gap.first_offset for gap in gone[1:]]
        assert (gone[0].first_offset, gone[-1].last_offset) == (3, 8)
        assert {str(gap.reason) for gap in gone} == {"OVERFLOW"}
        assert one.pending() == [9, 10, 11, 12, 13, 14]
        assert (account.acked, account.dropped, account.pending) == (3, 6, 6)
        assert sum(partition.dropped.values()) == 6, "the page of 2 and 3 went as a whole, but 2 was settled"
        assert stats.identity_ok


@pytest.mark.parametrize("taken", [0, 1])
def test_in_flight_is_kept_and_the_run_after_it_goes(taken: int, broker: BrokerServer, client: Client) -> None:
    with cache(broker, client) as one:
        one.append(0, 1)
        held = client.pull(SINK, max_records=1, wait_s=10.0)[:taken]
        for first in range(2, 14, 2):
            one.append(first, first + 1)
        stats = client.sinks.stats(SINK)

        assert len(held) == taken
        assert stats.partitions[0].records <= 8
        assert one.pending()[-1] == 13
        assert stats.identity_ok
