"""Partitions side by side, each in order."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Barrier, Event, Lock
from time import monotonic

import pytest

from forebay.deliver import BatchLimits
from forebay.deliver.partition_executor import PartitionExecutor
from forebay.deliver.source import SourceDelivery
from tests.support.targets.memory_source import MemoryDelivery, records

ROOT = Path(__file__).resolve().parents[3]
WAIT_S = 20.0
ONE = BatchLimits(records_max=1)


def delivery(partition: int, first: int = 0) -> MemoryDelivery:
    """Return a delivery of one record."""
    return MemoryDelivery(records(1, first=first), partition=partition)


@contextmanager
def closing(lanes: PartitionExecutor) -> Iterator[PartitionExecutor]:
    """Close lanes at the end."""
    try:
        yield lanes
    finally:
        assert lanes.drain(WAIT_S)
        lanes.close()


def fail(error: BaseException) -> None:
    """Fail the test."""
    pytest.fail(repr(error))


def executor(
    work: Callable[[SourceDelivery], None],
    *,
    threads: int,
    on_failure: Callable[[BaseException], None] = fail,
    limits: BatchLimits = ONE,
    credit_records: int = 1 << 30,
    clock: Callable[[], float] = monotonic,
) -> PartitionExecutor:
    """Return an executor that joins no deliveries unless ``limits`` allow it."""
    return PartitionExecutor(
        work,
        threads=threads,
        on_failure=on_failure,
        limits_of=lambda _: limits,
        credit_records=credit_records,
        credit_bytes=1 << 30,
        clock=clock,
    )


def test_a_partition_is_worked_on_in_order_by_one_thread_at_a_time() -> None:
    lock = Lock()
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    busy: set[int] = set()
    left = SimpleQueue[int]()

    def work(one: SourceDelivery) -> None:
        with lock:
            assert one.partition not in busy
            busy.add(one.partition)
        offset = next(one.runs()).first_offset
        with lock:
            seen[one.partition].append(offset)
            busy.remove(one.partition)
        left.put(offset)

    with closing(executor(work, threads=3)) as lanes:
        for offset in range(100):
            for partition in seen:
                lanes.put(delivery(partition, offset))
        for _ in range(300):
            left.get(timeout=WAIT_S)

    assert seen == {partition: list(range(100)) for partition in seen}


def test_partitions_are_worked_on_side_by_side() -> None:
    together, ended = Barrier(3), SimpleQueue[int]()

    def work(one: SourceDelivery) -> None:
        together.wait(WAIT_S)
        ended.put(one.partition)

    with closing(executor(work, threads=3)) as lanes:
        for partition in range(3):
            lanes.put(delivery(partition))
        assert {ended.get(timeout=WAIT_S) for _ in range(3)} == {0, 1, 2}


def test_a_busy_partition_does_not_keep_the_others_from_their_turn() -> None:
    go, seen = Event(), SimpleQueue[int]()

    def work(one: SourceDelivery) -> None:
        go.wait(WAIT_S)
        seen.put(one.partition)

    with closing(executor(work, threads=1)) as lanes:
        for offset in range(3):
            lanes.put(delivery(0, offset))
        lanes.put(delivery(1))
        go.set()
        order = [seen.get(timeout=WAIT_S) for _ in range(4)]

    assert order == [0, 1, 0, 0]


@pytest.mark.parametrize("relaxed", [False, True])
def test_deliveries_that_wait_are_extended_until_their_turn(relaxed: bool) -> None:
    begun, go_on = SimpleQueue[SourceDelivery](), Event()
    found = [MemoryDelivery(records(1, first=number), partition=number % 2, relaxed=relaxed) for number in range(4)]

    def work(one: SourceDelivery) -> None:
        begun.put(one)
        assert go_on.wait(WAIT_S)

    lanes = executor(work, threads=1)
    with closing(lanes):
        for one in found:
            lanes.put(one)
        assert begun.get(timeout=WAIT_S) is found[0]
        lanes.extend_waiting()
        extended = [one.extended for one in found]
        go_on.set()

    # In STRICT order one delivery of a partition is enough, and the partition in process sees to itself.
    assert extended == ([0, 1, 1, 1] if relaxed else [0, 1, 0, 0])


def test_draining_leaves_what_waits_and_waits_for_what_runs() -> None:
    started, go, seen = Event(), Event(), SimpleQueue[int]()

    def work(one: SourceDelivery) -> None:
        started.set()
        go.wait(WAIT_S)
        seen.put(next(one.runs()).first_offset)

    lanes = executor(work, threads=1)
    for offset in range(3):
        lanes.put(delivery(0, offset))
    started.wait(WAIT_S)

    assert not lanes.drain(0.01)
    go.set()
    assert lanes.drain(WAIT_S)
    lanes.put(delivery(0, 9))
    lanes.close()

    assert seen.get(timeout=WAIT_S) == 0
    assert seen.empty()


def test_after_a_failure_nothing_more_is_begun() -> None:
    go, failures, begun = Event(), SimpleQueue[BaseException](), SimpleQueue[int]()

    def work(one: SourceDelivery) -> None:
        begun.put(next(one.runs()).first_offset)
        go.wait(WAIT_S)
        raise LookupError("gone")

    lanes = executor(work, threads=1, on_failure=failures.put)
    for offset in range(3):
        lanes.put(delivery(0, offset))
    go.set()
    failure = failures.get(timeout=WAIT_S)
    lanes.drain(WAIT_S)
    lanes.close()

    assert isinstance(failure, LookupError)
    assert begun.get() == 0
    assert begun.empty()
    assert failures.empty()


def test_a_target_that_never_returns_does_not_keep_the_process_from_its_end() -> None:
    program = """
        from threading import Event
        from forebay.deliver import BatchLimits
        from forebay.deliver.partition_executor import PartitionExecutor
        from tests.support.targets.memory_source import MemoryDelivery, records

        begun = Event()
        lanes = PartitionExecutor(
            lambda _: begun.set() or Event().wait(),
            threads=2, on_failure=lambda _: None, limits_of=lambda _: BatchLimits(), credit_records=9, credit_bytes=99,
        )
        lanes.put(MemoryDelivery(records(1)))
        assert begun.wait(20)
        assert not lanes.drain(0.01)
        lanes.close()
    """

    run = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, timeout=60, check=False)

    assert run.returncode == 0


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def spans(one: SourceDelivery) -> tuple[int, int, int]:
    return one.partition, one.first_offset, one.last_offset


def test_deliveries_that_came_while_their_partition_was_processed_are_one() -> None:
    begun, seen, go = Event(), SimpleQueue[tuple[int, int, int]](), Event()

    def work(one: SourceDelivery) -> None:
        seen.put(spans(one))
        begun.set()
        assert go.wait(WAIT_S)

    with closing(executor(work, threads=2, limits=BatchLimits(records_max=3))) as lanes:
        lanes.put(delivery(0))
        assert begun.wait(WAIT_S)
        for offset in range(1, 6):
            lanes.put(delivery(0, offset))
        go.set()
        found = [seen.get(timeout=WAIT_S) for _ in range(3)]

    assert found == [(0, 0, 0), (0, 1, 3), (0, 4, 5)]


def test_a_batch_waits_until_it_is_full_or_its_time_has_passed() -> None:
    seen, clock = SimpleQueue[tuple[int, int, int]](), Clock()
    limits = BatchLimits(records_max=3, wait_s=10.0)

    with closing(executor(lambda one: seen.put(spans(one)), threads=2, limits=limits, clock=clock)) as lanes:
        for offset in range(4):
            lanes.put(delivery(0, offset))
        assert seen.get(timeout=WAIT_S) == (0, 0, 2)
        clock.now = 9.0
        lanes.put(delivery(1))
        assert seen.empty()
        clock.now = 10.0
        lanes.put(delivery(1, 1))  # wakes the timer
        assert seen.get(timeout=WAIT_S) == (0, 3, 3)
        assert seen.empty()
        clock.now = 19.0
        lanes.put(delivery(2))
        assert seen.get(timeout=WAIT_S) == (1, 0, 1)


def test_a_batch_that_waits_is_sent_when_its_time_has_passed_without_a_further_delivery() -> None:
    seen = SimpleQueue[tuple[int, int, int]]()

    with closing(executor(lambda one: seen.put(spans(one)), threads=1, limits=BatchLimits(wait_s=0.05))) as lanes:
        lanes.put(delivery(0))
        lanes.put(delivery(0, 1))

        assert seen.get(timeout=WAIT_S) == (0, 0, 1)


def test_no_batch_waits_once_half_of_the_credit_is_queued() -> None:
    seen, limits = SimpleQueue[tuple[int, int, int]](), BatchLimits(wait_s=3_600.0)

    with closing(executor(lambda one: seen.put(spans(one)), threads=1, limits=limits, credit_records=8)) as lanes:
        for partition in range(4):
            assert seen.empty()
            lanes.put(delivery(partition))
        found = {seen.get(timeout=WAIT_S) for _ in range(4)}

    assert found == {(partition, 0, 0) for partition in range(4)}


def test_a_batch_that_waits_is_extended_and_is_left_at_the_end() -> None:
    first, second = delivery(0), delivery(0, 1)
    lanes = executor(fail_delivery, threads=1, limits=BatchLimits(wait_s=3_600.0))

    lanes.put(first)
    lanes.put(second)
    lanes.extend_waiting()

    assert (first.extended, second.extended) == (1, 0)
    assert lanes.is_idle
    assert lanes.drain(WAIT_S)
    lanes.close()


def fail_delivery(_: SourceDelivery) -> None:
    pytest.fail("nothing is due")
