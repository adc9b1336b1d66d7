"""Conclusions of the oracle from the broker's statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from forebay.client import DropReason, Durability, Gap, SinkStats
from forebay.client.testing import broker
from tests.support.oracles.oracle import Oracle
from tests.support.oracles.records import identity

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def empty() -> SinkStats:
    """Statistics of a new sink."""
    with broker() as running, running.client() as client:
        client.sinks.create("orders")
        return client.sinks.stats("orders")


def saying(empty: SinkStats, *, end: int, dropped: Mapping[DropReason, int]) -> SinkStats:
    """Everything below ``end`` was dropped before any consumer received it."""
    [log], [default] = empty.partitions, empty.subscriptions
    [account] = default.partitions
    gone = sum(dropped.values())
    log = replace(log, earliest_offset=end, next_offset=end, dropped=dropped)
    account = replace(account, watermark=end, dropped=gone, acked=end - gone)
    return replace(empty, partitions=(log,), subscriptions=(replace(default, partitions=(account,)),))


def forgetting() -> Oracle:
    """Three records in memory, of which a crash took all."""
    oracle = Oracle("orders", 1, may_drop={"LOST_IN_CRASH"})
    oracle.receipt(0, 0, [identity(1, number) for number in (1, 2, 3)], Durability.MEMORY)
    return oracle


def gap(first: int, last: int, *, at_most: bool = False) -> Gap:
    counts = {DropReason.LOST_IN_CRASH: last - first + 1}
    return Gap(0, first, last, DropReason.LOST_IN_CRASH, NOW, counts=counts, at_most=at_most)


def test_an_allowed_loss_that_was_reported_and_counted_is_no_violation(empty: SinkStats) -> None:
    oracle = forgetting()
    oracle.gap(gap(0, 2))
    stats = saying(empty, end=3, dropped={DropReason.LOST_IN_CRASH: 3})

    oracle.check(stats, oracle.promises(), all_told=True)

    assert oracle.check_drops(stats) == 3
    assert oracle.close()["in_memory"] == 3
    assert not oracle.violations


def test_a_reason_that_the_sink_does_not_have_is_a_loss_even_if_it_was_never_reported(empty: SinkStats) -> None:
    oracle = forgetting()

    oracle.check(saying(empty, end=3, dropped={DropReason.CORRUPT: 3}), oracle.promises())

    assert oracle.violations == {"lost": 1}


def test_a_kill_that_is_taken_for_a_power_loss_is_a_violation() -> None:
    oracle = forgetting()

    oracle.gap(gap(0, 2, at_most=True))

    assert oracle.violations == {"lost": 1}


def test_records_that_count_as_dropped_and_were_never_reported_are_a_violation(empty: SinkStats) -> None:
    oracle = forgetting()
    oracle.gap(gap(0, 1))

    oracle.check_drops(saying(empty, end=3, dropped={DropReason.LOST_IN_CRASH: 3}))

    assert oracle.violations == {"identity_broken": 1}


def test_records_that_are_neither_acked_nor_counted_as_dropped_are_a_violation(empty: SinkStats) -> None:
    oracle = forgetting()
    oracle.gap(gap(0, 2))

    oracle.check_drops(saying(empty, end=3, dropped={DropReason.LOST_IN_CRASH: 2}))

    assert oracle.violations == {"skipped": 1}


def test_a_log_that_ends_below_a_receipt_has_lost_it_also_where_memory_held_it(empty: SinkStats) -> None:
    oracle = forgetting()

    oracle.check(saying(empty, end=2, dropped={DropReason.LOST_IN_CRASH: 2}), oracle.promises())

    assert oracle.violations == {"lost": 1}
