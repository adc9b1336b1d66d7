"""The page of damage has the newest gaps, wherever they are."""

from __future__ import annotations

import pytest

from forebay.broker.console.pages.damage import GAPS, newest_gaps
from forebay.broker.core.partition.pages import DropReason, Gap
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.sink.buffer import Buffer
from tests.support.brokers.running import running

pytestmark = pytest.mark.anyio


def drop(buffer: Buffer, partition: int, *times_us: int) -> None:
    """Drop every other record of a partition, each at a time."""
    log = buffer.logs[partition]
    made = [Gap(2 * n, 2 * n + 1, DropReason.EXPIRED, at_us, 10, 1) for n, at_us in enumerate(times_us)]
    log.apply_repair(log.head, made)


async def test_the_newest_gaps_are_listed_after_more_than_a_thousand_older_ones() -> None:
    async with running() as broker:
        orders, _ = await broker.create("orders", SinkSettings(partitions=2))
        alerts, _ = await broker.create("alerts", SinkSettings())
        drop(orders, 0, *range(1_000, 2_001))
        drop(orders, 1, 9_999)
        drop(alerts, 0, 5_000)

        found = await newest_gaps([alerts, orders])

    assert [(one.sink, one.gap.partition, one.gap.at.ToMicroseconds()) for one in found.gaps[:3]] == [
        ("orders", 1, 9_999),
        ("alerts", 0, 5_000),
        ("orders", 0, 2_000),
    ]
    assert (len(found.gaps), found.total, found.more) == (GAPS, 1_003, False)


async def test_records_that_a_subscription_rejected_are_gaps_too() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        drop(buffer, 0, 1_000)
        buffer.logs[0].reject("audit", [Range(7, 8)], settled_to=0, at_us=2_000, detail="422")

        found = await newest_gaps([buffer])

    assert [one.gap.subscription for one in found.gaps] == ["audit", ""]


async def test_no_more_gaps_are_examined_than_the_bound() -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings(partitions=3))
        for partition in range(3):
            drop(buffer, partition, *range(partition, 40 + partition))

        found = await newest_gaps([buffer], number=10, examined_max=100)

    assert found.gaps[0].gap.at.ToMicroseconds() == 41
    assert (len(found.gaps), found.total, found.more) == (10, 100, True)
