"""Purges, gaps and explanations between the wire and the runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from forebay.broker.core.errors import InvalidPartition
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import BufferMode, SinkSettings
from forebay.broker.rpc.sinks import questions
from forebay.broker.rpc.sinks.explanation_text import text
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.read.explanation import explained
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.retention.purge import Purged, Until
from forebay.errors.reasons import Reason
from forebay.v1 import record_pb2
from forebay.v1 import sink_service_pb2 as pb
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def orders(pages: int = 0, *, partitions: int = 1, **settings: Any) -> AsyncIterator[tuple[Broker, Buffer]]:
    async with running(clock=FakeClock()) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1, partitions=partitions, **settings))
        for log in buffer.logs:
            await fill(buffer, pages, partition=log.number)
        yield broker, buffer


def drop_every_second(buffer: Buffer) -> None:
    for log in buffer.logs:
        for entry in log.first_entries()[::2]:
            buffer.removal.drop(log.number, [entry], DropReason.OVERFLOW)


# -- purge


async def test_a_purge_without_bounds_is_of_everything() -> None:
    async with orders(partitions=3) as (_, buffer):
        assert questions.purge_request(buffer, pb.PurgeSinkRequest(name="orders")) == ([0, 1, 2], Until())


async def test_a_purge_has_one_partition_and_one_bound() -> None:
    async with orders(partitions=3) as (_, buffer):
        offset = pb.PurgeSinkRequest(name="orders", partition=2, until_offset=0)
        time = pb.PurgeSinkRequest(name="orders", partition=0, until_time=Timestamp(seconds=5))

        assert questions.purge_request(buffer, offset) == ([2], Until(offset=0))
        assert questions.purge_request(buffer, time) == ([0], Until(time_us=5_000_000))


async def test_ends_by_partition_bound_a_purge_to_these_partitions() -> None:
    async with orders(partitions=3) as (_, buffer):
        ends = pb.PurgeSinkRequest(name="orders", end_offsets={0: 0, 2: 0})
        of_one = pb.PurgeSinkRequest(name="orders", partition=2, until_offset=0, end_offsets={0: 0, 2: 0})

        assert questions.purge_request(buffer, ends) == ([0, 2], Until(ends={0: 0, 2: 0}))
        assert questions.purge_request(buffer, of_one) == ([2], Until(offset=0, ends={0: 0, 2: 0}))
        with pytest.raises(InvalidPartition):
            questions.purge_request(buffer, pb.PurgeSinkRequest(name="orders", end_offsets={3: 0}))


async def test_an_offset_needs_its_partition_unless_there_is_only_one() -> None:
    request = pb.PurgeSinkRequest(name="orders", until_offset=3)
    async with orders(partitions=2) as (_, buffer):
        with refusal(Reason.INVALID_RANGE):
            questions.purge_request(buffer, request)
    async with orders() as (_, buffer):
        assert questions.purge_request(buffer, request) == ([0], Until(offset=3))


async def test_a_partition_that_does_not_exist_is_refused() -> None:
    async with orders(partitions=2) as (_, buffer):
        with pytest.raises(InvalidPartition):
            questions.purge_request(buffer, pb.PurgeSinkRequest(name="orders", partition=2))
        with pytest.raises(InvalidPartition):
            await questions.gaps_response(buffer, pb.ListGapsRequest(sink="orders", partition=2))


def test_purged_records_are_reported_per_partition() -> None:
    message = questions.purge_response([Purged(3, 10, 200, 2, 40)])

    assert message == pb.PurgeSinkResponse(
        partitions=[pb.PurgedPartition(partition=3, records=10, bytes=200, pages=2, earliest_offset=40)]
    )


# -- gaps


async def test_gaps_come_by_partition_and_offset_page_by_page() -> None:
    async with orders(5, partitions=2) as (_, buffer):
        drop_every_second(buffer)
        buffer.logs[0].reject("default", [Range(1, 2)], settled_to=0, at_us=7, detail="no")
        found: list[tuple[int, int, str]] = []
        token, calls = "", 0
        while not calls or token:
            request = pb.ListGapsRequest(sink="orders", page_size=2, page_token=token)
            response = await questions.gaps_response(buffer, request)
            found += [(gap.partition, gap.first_offset, gap.subscription) for gap in response.gaps]
            token, calls = response.next_page_token, calls + 1

        everybody = [(partition, offset, "") for partition in (0, 1) for offset in (0, 2, 4)]
        assert found == sorted([*everybody, (0, 1, "default")])
        assert calls == 4


async def test_gaps_of_many_subscriptions_at_one_offset_are_each_listed_once() -> None:
    async with orders(5) as (_, buffer):
        names = [f"s{n}" for n in range(5)]
        for name in names:
            await buffer.subscribing.create(name, EARLIEST, or_earliest=False)
            buffer.logs[0].reject(name, [Range(1, 2)], settled_to=0, at_us=7, detail="no")
        found: list[str] = []
        token, calls = "", 0
        while not calls or token:
            request = pb.ListGapsRequest(sink="orders", page_size=1, page_token=token)
            response = await questions.gaps_response(buffer, request)
            found += [gap.subscription for gap in response.gaps]
            token, calls = response.next_page_token, calls + 1

        assert (found, calls) == (names, 5)


async def test_gaps_of_one_partition_only() -> None:
    async with orders(3, partitions=2) as (_, buffer):
        drop_every_second(buffer)

        response = await questions.gaps_response(buffer, pb.ListGapsRequest(sink="orders", partition=1))

        assert [(gap.partition, gap.first_offset) for gap in response.gaps] == [(1, 0), (1, 2)]
        assert response.gaps[0].counts[0] == record_pb2.GapCount(reason=record_pb2.DROP_REASON_OVERFLOW, records=1)
        assert response.gaps[0].first_at == response.gaps[0].at


@pytest.mark.parametrize("token", ["x", "1", "1:", "1:x:", ":::"])
async def test_a_page_token_that_was_not_given_is_refused(token: str) -> None:
    async with orders() as (_, buffer):
        with refusal(Reason.INVALID_PAGE_TOKEN):
            await questions.gaps_response(buffer, pb.ListGapsRequest(sink="orders", page_token=token))


# -- explanations


async def answer(broker: Broker, offset: int) -> pb.ExplainRecordResponse:
    buffer = broker.sink("orders")
    found = await explained(buffer, buffer.subscription(""), 0, offset)
    message = questions.explain_response(0, "default", found, None)
    assert message.text == text(found, "default")
    return message


async def test_a_stored_record_says_when_its_own_part_was_accepted() -> None:
    async with running(clock=FakeClock()) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=10))
        appends = [await buffer.append(page(b"a", b"b")), await buffer.append(page(b"c"))]
        for append in appends:
            await append.done

        message = await answer(broker, 2)

        assert (message.page_first_offset, message.page_last_offset) == (0, 2)
        assert message.accepted_at.ToMicroseconds() == appends[1].accepted_at_us
        assert (message.place, message.state, message.wait) == (
            pb.RECORD_PLACE_RECENT,
            pb.RECORD_STATE_PENDING,
            pb.WAIT_REASON_NO_CONSUMER,
        )
        assert message.durability == record_pb2.DURABILITY_DISK
        assert message.text.endswith("Subscription default has not settled it. No consumer is connected.")


async def test_a_record_that_is_only_in_memory_says_so() -> None:
    async with orders(1, buffer_mode=BufferMode.SPILL) as (broker, _):
        message = await answer(broker, 0)

        assert (message.place, message.durability) == (pb.RECORD_PLACE_MEMORY, record_pb2.DURABILITY_MEMORY)


async def test_a_record_in_flight_says_who_has_it() -> None:
    async with orders(2) as (broker, buffer):
        taker = Taker(buffer.subscription(""), "worker-1")
        await taker.all_offsets()

        message = await answer(broker, 1)

        assert (message.flight.consumer_id, message.flight.owner_epoch) == ("worker-1", taker.answer().owner_epoch)
        assert message.wait == pb.WAIT_REASON_ANSWER
        assert message.wait_until.ToSeconds() - message.flight.sent_at.ToSeconds() == 30
        assert "Consumer worker-1 of default has it since" in message.text


async def test_a_record_that_backs_off_says_what_failed_and_when_the_next_try_is() -> None:
    async with orders(2) as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.nack(0, 1, delay_s=60.0, reason="it said 503")

        message = await answer(broker, 0)

        assert (message.attempts, message.wait, message.wait_detail) == (1, pb.WAIT_REASON_BACKING_OFF, "it said 503")
        assert message.delivery_state == pb.DELIVERY_STATE_BACKING_OFF
        assert message.delivered_before
        assert (
            "1 failed attempt so far. The next attempt is at 2023-11-14T22:14:20.000+00:00; the last one failed"
            in message.text
        )


async def test_a_dropped_record_has_its_gap_and_a_rejected_one_the_subscription_s() -> None:
    async with orders(3) as (broker, buffer):
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.subscription.discard(0, taker.answer(), [Range(1, 2)], reason="no such column")
        rejected = await answer(broker, 1)
        buffer.removal.drop(0, buffer.logs[0].first_entries()[:1], DropReason.OVERFLOW)
        dropped = await answer(broker, 0)

        assert rejected.place == pb.RECORD_PLACE_RECENT
        assert (rejected.state, rejected.rejection.detail) == (pb.RECORD_STATE_DROPPED, "no such column")
        assert not rejected.HasField("gap")
        assert "rejected by its target: no such column." in rejected.text
        assert (dropped.place, dropped.state) == (pb.RECORD_PLACE_DROPPED, pb.RECORD_STATE_DROPPED)
        assert dropped.gap.reason == record_pb2.DROP_REASON_OVERFLOW
        assert "reason OVERFLOW, with the gap of offsets 0 to 0." in dropped.text


async def test_an_offset_that_no_record_has_names_the_next_one() -> None:
    async with orders(2) as (broker, _):
        message = await answer(broker, 7)

        assert (message.place, message.state) == (pb.RECORD_PLACE_NOT_ASSIGNED, pb.RECORD_STATE_UNSPECIFIED)
        assert message.text == "No record has offset 7 yet: the next one gets 2."
        assert not message.HasField("page_first_offset")
