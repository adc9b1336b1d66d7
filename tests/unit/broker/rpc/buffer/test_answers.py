from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from google.protobuf.duration_pb2 import Duration

from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.errors import InvalidPartition
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Ordering, SinkSettings
from forebay.broker.rpc.buffer.answers import REASON_MAX, SLICE, Results, acked, extended, in_message, nacked
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.resources import slices
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio
T = TypeVar("T")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def taken(clock: FakeClock | None = None, *, records: int = 5) -> AsyncIterator[Taker]:
    """A consumer with records in flight."""
    async with running(clock=clock) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        append = await buffer.append(page(*[b"x"] * records))
        await append.done
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        yield taker


def ranges(*pairs: tuple[int, int]) -> list[record_pb2.OffsetRange]:
    return [record_pb2.OffsetRange(first_offset=first, last_offset=last) for first, last in pairs]


def ack(taker: Taker, *pairs: tuple[int, int], until: bool = False, partition: int = 0) -> pb.AckRanges:
    return pb.AckRanges(partition=partition, owner_epoch=taker.answer().owner_epoch, ranges=ranges(*pairs), until=until)


def nack(taker: Taker, *pairs: tuple[int, int], seconds: int | None = None, reason: str = "") -> pb.NackRanges:
    delay = Duration(seconds=seconds) if seconds is not None else None
    retry = pb.NackRetry(delay=delay, reason=reason)
    return pb.NackRanges(owner_epoch=taker.answer().owner_epoch, ranges=ranges(*pairs), retry=retry)


async def test_an_ack_settles_its_ranges() -> None:
    async with taken() as taker:
        results = await (await acked(taker.subscription, ack(taker, (0, 1), (3, 3))))

        assert [outcome for _, _, outcome in results] == [SettleOutcome.OK, SettleOutcome.OK]
        assert taker.lane().cursor.acked == 3


async def test_until_takes_one_range_and_no_more() -> None:
    async with taken() as taker:
        await (await acked(taker.subscription, ack(taker, (0, 3), until=True)))

        assert taker.lane().cursor.watermark == 4
        with refusal(Reason.INVALID_RANGE):
            await acked(taker.subscription, ack(taker, (0, 3), (4, 4), until=True))


async def test_a_range_up_to_the_highest_offset_there_can_be_is_answered() -> None:
    async with taken() as taker:
        results = await (await acked(taker.subscription, ack(taker, (0, 2**63 - 1))))
        until = await (await acked(taker.subscription, ack(taker, (0, 2**63 - 1), until=True)))

        assert [outcome for _, _, outcome in results] == [SettleOutcome.OK, SettleOutcome.UNKNOWN]
        assert [outcome for _, _, outcome in until] == [SettleOutcome.UNKNOWN]


async def test_an_answer_about_a_partition_that_does_not_exist_is_refused() -> None:
    async with taken() as taker:
        with pytest.raises(InvalidPartition):
            await acked(taker.subscription, ack(taker, (0, 1), partition=1))


async def test_a_nack_names_its_delay_and_reason() -> None:
    clock = FakeClock()
    async with taken(clock) as taker:
        await (await nacked(taker.subscription, nack(taker, (0, 0), seconds=9, reason="x" * 5_000)))

        resend = taker.lane().resend
        assert (resend.state, resend.until - clock.now) == (State.BACKING_OFF, 9.0)
        assert resend.reason == "x" * REASON_MAX


async def test_a_nack_without_an_action_is_a_retry_with_the_sinks_back_off() -> None:
    async with taken() as taker:
        request = pb.NackRanges(owner_epoch=taker.answer().owner_epoch, ranges=ranges((0, 0)))

        await (await nacked(taker.subscription, request))

        assert (taker.lane().resend.state, taker.lane().resend.reason) == (State.BACKING_OFF, "nack")


@pytest.mark.parametrize("seconds", [-1, 24 * 3_600 + 1, 315_576_000_000])
async def test_a_delay_out_of_bounds_is_refused_and_nothing_is_returned(seconds: int) -> None:
    async with taken() as taker:
        with refusal(Reason.INVALID_NACK):
            await nacked(taker.subscription, nack(taker, (0, 0), seconds=seconds))

        assert taker.lane().resend.state is State.FLOWING


async def test_the_longest_delay_is_a_day() -> None:
    async with taken() as taker:
        results = await (await nacked(taker.subscription, nack(taker, (0, 0), seconds=24 * 3_600)))

        assert [outcome for _, _, outcome in results] == [SettleOutcome.OK]


async def test_a_dead_letter_moves_the_record_with_its_reason() -> None:
    async with taken() as taker:
        letter = pb.NackDeadLetter(reason="no such customer")
        request = pb.NackRanges(owner_epoch=taker.answer().owner_epoch, ranges=ranges((2, 2)), dead_letter=letter)

        results = await (await nacked(taker.subscription, request))

        assert [outcome for _, _, outcome in results] == [SettleOutcome.OK]
        assert taker.lane().cursor.dead_lettered == 1


SCATTERED = [(offset, offset) for offset in range(0, 8_000, 2)]
LONGEST_S = 0.25
"""Maximum wait of any caller for a part of one answer: it takes some milliseconds."""


@asynccontextmanager
async def many_taken(ordering: Ordering = Ordering.STRICT) -> AsyncIterator[Taker]:
    """A consumer with 8,000 records in flight."""
    async with running() as broker:
        settings = SinkSettings(dlq_ratio_max=1.0, dlq_consecutive_max=1_000_000, ordering=ordering)
        buffer, _ = await broker.create("orders", settings)
        for _ in range(4):
            await fill(buffer, 1, records=2_000)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        yield taker


async def beside(work: Awaitable[T]) -> tuple[T, int]:
    """Return what comes of ``work``, and how many turns others had meanwhile, none of which came late."""
    longest, turns = 0.0, 0
    gc.disable()  # a full collection of what all tests before have left takes as long as the bound
    try:
        working = asyncio.ensure_future(work)
        at = time.thread_time()
        while not working.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, at, turns = max(longest, now - at), now, turns + 1
    finally:
        gc.enable()
    assert longest < LONGEST_S
    return await working, turns


def all_ok(results: Results) -> bool:
    return [(part.first, outcome) for _, part, outcome in results] == [
        (first, SettleOutcome.OK) for first, _ in SCATTERED
    ]


@pytest.mark.slow
@pytest.mark.parametrize("ordering", Ordering, ids=lambda found: found.name)
@pytest.mark.parametrize("how", ["ack", "drop", "dead letter", "retry"])
async def test_thousands_of_scattered_records_are_answered_in_order_while_others_run(
    how: str, ordering: Ordering, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with many_taken(ordering) as taker:
        monkeypatch.setattr(slices, "SLICE_S", 0.0)

        async def answer() -> Results:
            if how == "ack":
                return await (await acked(taker.subscription, ack(taker, *SCATTERED)))
            request = nack(taker, *SCATTERED)
            if how == "drop":
                request.drop.reason = "no"
            elif how == "dead letter":
                request.dead_letter.reason = "no"
            return await (await nacked(taker.subscription, request))

        results, turns = await beside(answer())

        assert all_ok(results)
        assert turns >= 2 * len(SCATTERED) // SLICE  # when they are read, and when they are applied


async def test_more_time_for_thousands_of_ranges_is_given_while_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with many_taken(Ordering.RELAXED) as taker:
        monkeypatch.setattr(slices, "SLICE_S", 0.0)
        request = pb.Extend(owner_epoch=taker.answer().owner_epoch, ranges=ranges(*SCATTERED))

        owns, turns = await beside(extended(taker.subscription, request))

        assert owns
        assert turns >= 2 * len(SCATTERED) // SLICE - 1


async def test_thousands_of_results_become_a_message_while_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with many_taken() as taker:
        results = await (await acked(taker.subscription, ack(taker, *SCATTERED)))
        monkeypatch.setattr(slices, "SLICE_S", 0.0)

        message, turns = await beside(in_message(results))

        assert [one.range.first_offset for one in message] == [first for first, _ in SCATTERED]
        assert turns >= len(SCATTERED) // SLICE


async def test_in_strict_order_a_nack_of_thousands_of_ranges_is_one_failure() -> None:
    async with many_taken() as taker:
        before = taker.lane().revision

        await (await nacked(taker.subscription, nack(taker, *SCATTERED[1:])))

        assert taker.lane().revision == before + 1
        assert taker.lane().cursor.attempts == ((2, 1),)


async def test_records_acked_while_a_nack_is_examined_are_already_settled_for_the_nack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with many_taken() as taker:
        monkeypatch.setattr(slices, "SLICE_S", 0.0)
        nacking = asyncio.ensure_future(nacked(taker.subscription, nack(taker, *SCATTERED)))
        for _ in range(2 * len(SCATTERED) // SLICE):  # it has examined the first ones
            await asyncio.sleep(0)
        early = nacking.done()
        settled = taker.subscription.ack(0, taker.answer(), [Range(0, 3)])

        results = await (await nacking)

        assert not early
        assert [outcome for _, _, outcome in await settled] == [SettleOutcome.OK]
        assert [outcome for _, _, outcome in results[:3]] == [
            *[SettleOutcome.ALREADY_SETTLED] * 2,
            SettleOutcome.OK,
        ]
        assert taker.lane().cursor.attempts == ((4, 1),)
