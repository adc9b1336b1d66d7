"""Readers of partitions and their bounded queue."""

from __future__ import annotations

import os
import signal
import threading
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime

import pytest

from forebay.client import BrokerUnavailable, DropReason, Encoding, Gap, PagePart, StoredPage
from forebay.client.positions.readers import HELD_BYTES, PartitionReaders, Read
from forebay.client.replay.iterator import ClosableIterator
from forebay.client.transport.threads import GuardedThread
from tests.support.calls.eventually import until

WAIT_S = 20.0


def page(offset: int, size: int = 100) -> StoredPage:
    return StoredPage(0, offset, 1, Encoding.RECORDS, bytes(size), (), offset, offset)


class Replay(ClosableIterator[StoredPage | Gap]):
    """Replay of given pages; at its end it fails, waits or stops."""

    def __init__(
        self, pages: Sequence[StoredPage | Gap], *, error: Exception | None = None, follow: bool = False
    ) -> None:
        self.taken = 0
        self.closing = threading.Event()
        self._error = error
        self._follow = follow
        self._steps = self._read(pages)

    def _read(self, pages: Sequence[StoredPage | Gap]) -> Iterator[StoredPage | Gap]:
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
    readers = PartitionReaders(2 * (400 + HELD_BYTES) + 200)
    readers.add(0, lambda: replay)

    with readers._changed:
        assert readers._changed.wait_for(lambda: len(readers._queue) == 2, WAIT_S)
    assert replay.taken <= 3
    for _ in range(10):
        assert readers.take(WAIT_S) is not None
    readers.close()


def measured(found: Callable[[int], StoredPage | Gap]) -> float:
    """Return the memory of a queued page or gap, without the bytes that all of them share."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        queue = deque(Read(0, found(1_000_000 + number)) for number in range(100))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / len(queue)


def page_of(parts: int) -> Callable[[int], StoredPage]:
    """Return a maker of pages of an offset, with the objects of as many appends."""

    def made(offset: int) -> StoredPage:
        held = tuple(
            PagePart(offset * 100 + number, datetime.fromtimestamp(offset, UTC), f"00-{offset:032x}-{number:016x}-01")
            for number in range(parts)
        )
        return StoredPage(0, offset * 100, parts, Encoding.RECORDS, bytes(60), held, offset * 100, offset * 100 + parts)

    return made


def gap(offset: int) -> Gap:
    return Gap(0, offset, offset + 1, DropReason.OVERFLOW, datetime.fromtimestamp(offset, UTC))


@pytest.mark.parametrize("found", [page_of(1), page_of(2), page_of(100), gap], ids=["one", "two", "hundred", "gap"])
def test_a_queued_page_or_gap_counts_about_as_much_as_its_memory(found: Callable[[int], StoredPage | Gap]) -> None:
    counted = Read(0, found(1_000_000)).size

    assert 0.6 * counted < measured(found) < 1.25 * counted


def test_gaps_are_bounded_like_pages() -> None:
    replay = Replay([gap(offset) for offset in range(10)], follow=True)
    readers = PartitionReaders(3 * Read(0, gap(0)).size)
    readers.add(0, lambda: replay)

    with readers._changed:
        assert readers._changed.wait_for(lambda: len(readers._queue) == 3, WAIT_S)
    for _ in range(10):
        assert readers.take(WAIT_S) is not None
    readers.close()

    assert replay.taken == 10


def test_a_partition_of_large_pages_has_its_turn_beside_one_of_small_pages() -> None:
    readers = PartitionReaders(10 * (100 + HELD_BYTES))
    readers.add(1, lambda: Replay([page(offset, 100) for offset in range(1000)]))
    with readers._changed:
        assert readers._changed.wait_for(lambda: len(readers._queue) == 10, WAIT_S)
    readers.add(0, lambda: Replay([page(0, 3000)]))

    until(lambda: len(readers._asking) == 2)
    taken: list[int] = []
    while len(taken) < 30 and 0 not in taken:
        with readers._changed:  # the small pages fill the room again, if that is granted to them
            readers._changed.wait_for(lambda: len(readers._queue) == 10, 0.05)
        read = readers.take(WAIT_S)
        assert read is not None
        taken.append(read.partition)
    readers.close()

    assert 0 in taken


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


def test_a_signal_handler_that_interrupts_a_take_can_close() -> None:
    readers = PartitionReaders(1000)
    readers.add(0, lambda: Replay([page(0, 900), page(1, 900)], follow=True))
    until(lambda: len(readers._asking) == 1)
    ended = threading.Event()

    def interrupted() -> None:
        with readers._changed:  # as within ``take``
            readers.close()
        ended.set()

    threading.Thread(target=interrupted, daemon=True).start()

    assert ended.wait(WAIT_S)


def test_a_reader_whose_start_is_slow_is_ended_by_a_close(monkeypatch: pytest.MonkeyPatch) -> None:
    start = GuardedThread.start

    def start_late(thread: GuardedThread) -> None:
        """Let the close of another thread come first, if it can."""
        closing.append(threads.submit(readers.close))
        wait(closing, 0.1)
        start(thread)

    closing: list[Future[None]] = []
    readers = PartitionReaders(1 << 20)
    with ThreadPoolExecutor(1) as threads:
        monkeypatch.setattr(GuardedThread, "start", start_late)
        readers.add(0, lambda: Replay([], follow=True))
        closing[0].result(WAIT_S)

    assert not any(thread.is_alive() for thread in readers._threads)


def test_a_forked_process_closes_readers_whose_threads_it_does_not_have() -> None:
    readers = PartitionReaders(1 << 20)
    replay = Replay([], follow=True)
    readers.add(0, lambda: replay)

    child = os.fork()
    if child == 0:
        readers.close()
        os._exit(0)
    ended: list[int] = []

    def has_ended() -> bool:
        ended.extend(found for found in [os.waitpid(child, os.WNOHANG)[0]] if found)
        return bool(ended)

    try:
        until(has_ended)
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        readers.close()


def test_a_reader_whose_thread_cannot_be_started_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = PartitionReaders(1 << 20)
    replay = Replay([])

    def start(thread: GuardedThread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(GuardedThread, "start", start)
        with pytest.raises(RuntimeError, match="start new thread"):
            readers.add(0, lambda: replay)

    assert replay.closing.is_set()
    assert readers.ended
    readers.close()
