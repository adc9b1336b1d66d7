from __future__ import annotations

import pytest

from forebay.broker.core.errors import ReadFailed
from forebay.broker.core.partition.pages import Entry
from forebay.broker.runtime.read.read_holds import PAGES_MAX, ReadHolds

FAILED = ReadFailed("Input/output error")


def entry(number: int) -> Entry:
    return Entry(number, 1, number, False, 10, 1, 0, 0, 0, 0, ())


def test_a_partition_is_held_until_all_that_failed_was_read_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    holds = ReadHolds()
    for number in (7, 9, 7):
        holds.failed(1, 0, entry(number), FAILED, 1_000_000)
    holds.failed(1, 0, None, FAILED, 2_000_000)

    holds.worked(1, 0, [9])
    holds.index_worked(1, 0)
    hold = holds.at(1, 0)

    assert hold is not None
    assert (list(hold.pages), hold.failures, hold.since) == ([7], 4, "1970-01-01T00:00:01+00:00")
    holds.worked(1, 0, [7, 8])
    assert (holds.at(1, 0), len(holds)) == (None, 0)
    assert [record.message.partition(" sink")[0] for record in caplog.records] == [
        "reads fail, the partition waits for them",
        "reads work again",
    ]


def test_the_pages_that_are_remembered_are_bounded_and_the_hold_ends_all_the_same() -> None:
    holds = ReadHolds()
    for number in range(PAGES_MAX + 5):
        holds.failed(1, 0, entry(number), FAILED, 0)

    hold = holds.at(1, 0)
    assert hold is not None
    assert len(hold.pages) == PAGES_MAX
    holds.worked(1, 0, range(PAGES_MAX))
    assert len(holds) == 0


def test_a_sink_that_is_deleted_leaves_nothing() -> None:
    holds = ReadHolds()
    for sink, partition in [(1, 0), (1, 1), (2, 0)]:
        holds.failed(sink, partition, None, FAILED, 0)

    holds.remove(1, range(2))

    assert [(sink, partition) for sink, partition, _ in holds] == [(2, 0)]
