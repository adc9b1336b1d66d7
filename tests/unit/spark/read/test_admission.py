"""A micro-batch stays within its limit, gets on, and starves no partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.spark.read.admission import Bounds, admitted
from forebay.spark.read.ranges import StoredRange


def stored(*ends: int, record_bytes: float = 0.0) -> list[StoredRange]:
    return [StoredRange(partition, 0, end, record_bytes) for partition, end in enumerate(ends)]


def test_without_a_limit_everything_comes_in() -> None:
    assert admitted({0: 2}, stored(5, 3), Bounds()) == {0: 5, 1: 3}


def test_the_unused_share_of_a_short_partition_goes_to_the_others() -> None:
    assert admitted({}, stored(100, 2, 100), Bounds(records=12)) == {0: 5, 1: 2, 2: 5}


def test_bytes_are_counted_by_the_mean_size_of_a_record() -> None:
    assert admitted({}, stored(100, record_bytes=10.0), Bounds(bytes=55)) == {0: 5}


def test_both_limits_hold() -> None:
    assert admitted({}, stored(100, record_bytes=10.0), Bounds(records=3, bytes=55)) == {0: 3}
    assert admitted({}, stored(100, record_bytes=10.0), Bounds(records=30, bytes=55)) == {0: 5}


def test_a_record_larger_than_the_limit_comes_alone() -> None:
    assert admitted({}, stored(3, record_bytes=1000.0), Bounds(bytes=1)) == {0: 1}


def test_a_limit_below_the_number_of_partitions_reaches_all_of_them_in_turn() -> None:
    start: dict[int, int] = {}
    for _ in range(12):
        start = admitted(start, stored(100, 100, 100), Bounds(records=1))

    assert sum(start.values()) == 12
    assert min(start.values()) > 0


def after(batches: int, ranges: list[StoredRange], bounds: Bounds) -> dict[int, int]:
    """Return the position after a number of micro-batches, by partition."""
    start: dict[int, int] = {}
    for _ in range(batches):
        start = admitted(start, ranges, bounds)
    return start


def test_a_partition_of_large_records_gets_one_in_each_batch_beside_those_with_a_backlog() -> None:
    ranges = [StoredRange(partition, 0, 10**9, 500.0) for partition in range(15)]
    ranges.append(StoredRange(15, 0, 50, 1e6))

    end = after(50, ranges, Bounds(bytes=10_000_000))

    assert end[15] == 50
    assert min(end.values()) == 50
    assert sum(at * ranges[partition].record_bytes for partition, at in end.items()) <= 50 * 10_000_000


def test_a_partition_with_a_single_record_gets_its_turn_below_a_limit_of_one_record_of_each() -> None:
    assert after(30, stored(10**6, 10**6, 1, 10**6), Bounds(records=3))[2] == 1


@pytest.mark.parametrize("records", [6, 12, 600, 1000])
def test_a_record_larger_than_the_limit_gets_its_turn_whatever_the_others_take(records: int) -> None:
    ranges = [StoredRange(partition, 0, 10**9, 100.0) for partition in range(5)]
    ranges.append(StoredRange(5, 0, 3, 1e6))

    assert after(100, ranges, Bounds(bytes=records * 100))[5] == 3


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6),
    st.integers(1, 60),
)
def test_a_batch_never_goes_back_never_passes_the_limit_and_always_gets_on(
    partitions: list[tuple[int, int]], records: int
) -> None:
    start = {partition: first for partition, (first, _) in enumerate(partitions)}
    ends = stored(*(first + lag for first, lag in partitions))

    end = admitted(start, ends, Bounds(records=records))

    taken = [end[partition] - start[partition] for partition in start]
    lag = sum(lag for _, lag in partitions)
    assert all(0 <= took <= partitions[at][1] for at, took in enumerate(taken))
    assert sum(taken) == min(records, lag)


RESTORED = StoredRange(0, 0, (1 << 40) + 7, skipped=((5, (1 << 40) + 5),))
TWICE = StoredRange(0, 0, (1 << 41) + 9, skipped=((5, 1 << 40), ((1 << 40) + 2, 1 << 41)))


def test_a_range_that_a_restore_left_out_takes_nothing_of_a_limit() -> None:
    seen = [start := {0: 0}]
    while start != (start := admitted(start, [RESTORED], Bounds(records=3))):
        seen.append(start)

    assert [one[0] for one in seen] == [0, 3, 5, (1 << 40) + 7]


def test_a_micro_batch_without_a_limit_ends_where_a_left_out_range_begins() -> None:
    assert admitted({0: 1}, [RESTORED], Bounds()) == {0: 5}
    assert admitted({0: 9}, [RESTORED], Bounds()) == {0: (1 << 40) + 7}


def test_the_ranges_of_two_restores_take_nothing_of_a_limit() -> None:
    seen = [start := {0: 0}]
    while start != (start := admitted(start, [TWICE], Bounds(records=4))):
        seen.append(start)

    assert [one[0] for one in seen] == [0, 4, 5, (1 << 40) + 2, (1 << 41) + 4, (1 << 41) + 8, (1 << 41) + 9]


def test_records_that_were_removed_take_nothing_of_a_limit() -> None:
    removed = StoredRange(0, 10**9, 10**9 + 5, record_bytes=10.0)
    healthy = StoredRange(1, 0, 100, record_bytes=10.0)

    assert admitted({0: 0}, [removed], Bounds(records=3)) == {0: 10**9 + 3}
    assert admitted({0: 0}, [removed], Bounds(bytes=30)) == {0: 10**9 + 3}
    assert admitted({0: 0, 1: 0}, [removed, healthy], Bounds(records=20)) == {0: 10**9 + 5, 1: 15}


def test_a_partition_whose_records_were_all_removed_gets_to_its_end() -> None:
    assert admitted({0: 0}, [StoredRange(0, 10**9, 10**9)], Bounds(records=3)) == {0: 10**9}
