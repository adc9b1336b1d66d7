from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.writes import PutAge, PutCursor, Write
from forebay.broker.runtime.commit.batch import Batch, fail
from forebay.broker.runtime.commit.group import Group

pytestmark = pytest.mark.anyio


def cursor(watermark: int, *, partition: int = 0) -> PutCursor:
    return PutCursor(1, "default", partition, Cursor(watermark=watermark, acked=watermark))


def batch(*controls: list[Write], last: list[Write] | None = None) -> Batch:
    loop = asyncio.get_running_loop()
    return Batch(Group([], [], last or [], 0), [(writes, loop.create_future()) for writes in controls], [], True, 0.0)


async def test_of_two_cursors_of_one_partition_only_the_later_one_is_written() -> None:
    made = batch([cursor(1), cursor(5, partition=1)], [cursor(2)])

    assert made.writes() == [cursor(5, partition=1), cursor(2)]


async def test_the_writes_of_the_appends_are_last() -> None:
    made = batch([PutAge(1, 2)], last=[cursor(1)])

    assert made.writes() == [PutAge(1, 2), cursor(1)]


async def test_those_that_gave_up_waiting_are_neither_confirmed_nor_failed() -> None:
    made = batch([PutAge(1, 2)], [PutAge(3, 4)])
    gone, waits = made.waiters()
    gone.cancel()

    made.confirm_controls()
    fail([gone], StoreFenced("the disk failed"))

    assert gone.cancelled()
    assert waits.done()
