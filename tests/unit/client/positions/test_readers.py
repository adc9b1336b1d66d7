"""Readers of partitions and their bounded queue."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

import pytest

from forebay.client import BrokerUnavailable, Encoding, Gap, StoredPage
from forebay.client.positions.readers import PartitionReaders
from forebay.client.replay.iterator import ClosableIterator

WAIT_S = 20.0


def page(offset: int, size: int = 100) -> StoredPage:
    return StoredPage(0, offset, 1, Encoding.RECORDS, bytes(size), (), offset, offset)


class Replay(ClosableIterator[StoredPage | Gap]):
    """Replay of given pages; at its end it fails, waits or stops."""

    def __init__(self, pages: list[StoredPage], *, error: Exception | None = None, follow: bool = False) -> None:
        self.taken = 0
        self.closing = threading.Event()
        self._error = error
        self._follow = follow
        self._steps = self._read(pages)

    def _read(self, pages: list[StoredPage]) -> Iterator[StoredPage]:
        for one in pages:
            self.taken += 1
            yield one
        if self._error is not None:
            raise self._error
        if self._follow:
            self.closing.wait(WAIT_S)

    def __next__(self) -> StoredPage | Gap:
        return next(self._steps)

    def close(self) -> None:
        self.closing.set()


def test_pages_of_a_partition_are_taken_in_order_until_all_partitions_end() -> None:
    readers = PartitionReaders(1 << 20)
    readers.add(0, lambda: Replay([page(0), page(1)]))
    readers.add(1, lambda: Replay([page(7)]))

    found = []
    while (read := readers.take(WAIT_S)) is not None:
        found.append((read.partition, read.found.first_offset))

    assert sorted(found) == [(0, 0), (0, 1), (1, 7)]
    assert readers.ended
    readers.close()


def test_read_ahead_is_bounded_in_bytes() -> None:
    replay = Replay([page(number, 400) for number in range(10)], follow=True)
    readers = PartitionReaders(1000)
    readers.add(0, lambda: replay)

    with readers._changed:
        assert readers._changed.wait_for(lambda: len(readers._queue) == 2, WAIT_S)
    assert replay.taken <= 3
    for _ in range(10):
        assert readers.take(WAIT_S) is not None
    readers.close()


def test_one_page_larger_than_the_bound_is_read_alone() -> None:
    readers = PartitionReaders(1000)
    readers.add(0, lambda: Replay([page(0, 5000), page(1, 5000)]))

    assert readers.take(WAIT_S) is not None
    assert readers.take(WAIT_S) is not None
    readers.close()


def test_the_error_of_a_reader_is_raised_after_what_was_read() -> None:
    readers = PartitionReaders(1 << 20)
    readers.add(0, lambda: Replay([page(0)], error=BrokerUnavailable("away")))

    assert readers.take(WAIT_S) is not None
    with pytest.raises(BrokerUnavailable):
        readers.take(WAIT_S)
    readers.close()


def test_the_error_of_a_reader_is_raised_however_much_the_others_could_read() -> None:
    readers = PartitionReaders(1000)
    other = Replay([page(offset, 900) for offset in range(1000)])
    readers.add(1, lambda: other)
    readers.add(0, lambda: Replay([], error=BrokerUnavailable("away")))
    with readers._changed:
        assert readers._changed.wait_for(lambda: readers._error is not None, WAIT_S)

    with pytest.raises(BrokerUnavailable):
        deque(iter(lambda: readers.take(WAIT_S), None))

    assert other.taken <= 2
    readers.close()


def test_nothing_is_taken_after_the_time_limit() -> None:
    readers = PartitionReaders(1 << 20)
    readers.add(0, lambda: Replay([], follow=True))

    assert readers.take(0.01) is None
    assert not readers.ended
    readers.close()


def test_closing_ends_readers_that_wait_for_room_or_for_records() -> None:
    full, waiting = Replay([page(0, 900), page(1, 900)], follow=True), Replay([], follow=True)
    readers = PartitionReaders(1000)
    readers.add(0, lambda: full)
    readers.add(1, lambda: waiting)

    readers.close()

    assert full.closing.is_set()
    assert waiting.closing.is_set()
    assert not any(thread.is_alive() for thread in readers._threads)
    assert readers.take(None) is None
