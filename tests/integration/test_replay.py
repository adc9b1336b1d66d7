"""Reading a partition again over gRPC."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.clock import FakeClock
from forebay.client import (
    BrokerUnavailable,
    Client,
    ClientSettings,
    Gap,
    GapError,
    OffsetTrimmed,
    Overflow,
    Record,
    RecordReplay,
    ReplayedRecord,
)
from forebay.client.errors import OutOfRange
from forebay.client.transport.status import from_call
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from tests.support.calls.eventually import stats_when

MIB = 1 << 20


def fill(client: Client, *, calls: int = 10, records: int = 10) -> None:
    """Publish numbered records in pages of ``records``."""
    client.sinks.create("orders", buffer_page_size=1)
    for call in range(calls):
        client.publish("orders", [Record(b"%d" % (call * records + number)) for number in range(records)])


def offsets(steps: RecordReplay) -> list[int]:
    return [step.offset for step in steps if isinstance(step, ReplayedRecord)]


def test_all_that_is_stored_is_read_in_order(client: Client) -> None:
    fill(client)

    found = [step for step in client.replay("orders", partition=0) if isinstance(step, ReplayedRecord)]

    assert [(record.offset, record.value) for record in found] == [(number, b"%d" % number) for number in range(100)]


@pytest.mark.parametrize(("start", "end"), [(0, 100), (5, 6), (7, 23), (99, 100), (100, 100), (40, 400), (3, 3)])
def test_a_range_is_cut_to_the_record(client: Client, start: int, end: int) -> None:
    fill(client)

    assert offsets(client.replay("orders", partition=0, start=start, end=end)) == list(range(start, min(end, 100)))


def test_a_time_is_where_the_first_record_accepted_since_stands() -> None:
    clock = FakeClock()
    with BrokerServer.in_memory(clock=clock) as server, Client(server.endpoint) as client:
        client.sinks.create("orders", buffer_page_size=1)
        began = datetime.fromtimestamp(clock.wall / 1e6, UTC)
        for _ in range(5):
            client.publish("orders", [Record(b"x")] * 2)
            clock.advance(60.0)

        def since(minutes: float) -> list[int]:
            return offsets(client.replay("orders", partition=0, start_time=began + timedelta(minutes=minutes)))

        assert since(-1_000_000) == list(range(10))
        assert since(2) == since(1.5) == list(range(4, 10))
        assert since(100) == []


def test_a_position_that_is_not_there_is_reported_with_what_is(client: Client) -> None:
    fill(client)
    client.ack("orders", client.pull("orders", max_records=30))
    stats_when(client, "orders", lambda stats: stats.partitions[0].earliest_offset == 30)

    with pytest.raises(OutOfRange) as ahead:
        offsets(client.replay("orders", partition=0, start=101))
    with pytest.raises(OffsetTrimmed) as trimmed:
        offsets(client.replay("orders", partition=0, start=29))

    assert (ahead.value.requested, ahead.value.next_offset) == (101, 100)
    assert (trimmed.value.requested, trimmed.value.earliest) == (29, 30)
    assert offsets(client.replay("orders", partition=0)) == list(range(30, 100))


def test_a_gap_is_an_error_or_a_step(client: Client) -> None:
    client.sinks.create("orders", overflow=Overflow.DROP_OLDEST, max_disk_cache=2, buffer_page_size=1)
    for _ in range(5):
        client.publish("orders", [Record(b"x")])

    with pytest.raises(GapError) as missing:
        offsets(client.replay("orders", partition=0, start=1))
    steps = list(client.replay("orders", partition=0, start=1, on_gap="yield"))

    assert missing.value.first_offset == 1
    gaps = [step for step in steps if isinstance(step, Gap)]
    assert [(gap.first_offset, gap.last_offset) for gap in gaps] == [(1, 1), (2, 2)]
    assert [step.offset for step in steps if isinstance(step, ReplayedRecord)] == [3, 4]


def test_a_follower_gets_what_comes_later(client: Client) -> None:
    fill(client, calls=1)
    steps = iter(client.replay("orders", partition=0, follow=True))
    found = [next(steps) for _ in range(10)]
    client.publish("orders", [Record(b"new")])

    found.append(next(steps))

    assert [step.offset for step in found if isinstance(step, ReplayedRecord)] == list(range(11))


def test_a_follower_with_an_end_stops_there(client: Client) -> None:
    fill(client, calls=1)
    steps = client.replay("orders", partition=0, end=12, follow=True)
    first = [next(steps) for _ in range(10)]
    client.publish("orders", [Record(b"x")] * 5)

    assert len(first) == 10
    assert offsets(steps) == [10, 11]


def test_the_largest_record_is_read_as_it_was_sent(client: Client) -> None:
    client.sinks.create("orders")
    value = bytes(range(256)) * (MIB // 32)
    with client.publisher("orders") as publisher:
        publisher.send(value[: 8 * MIB]).result(20)

    [record] = client.replay("orders", partition=0)

    assert isinstance(record, ReplayedRecord)
    assert record.value == value[: 8 * MIB]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"sink": "nothing"}, Reason.SINK_NOT_FOUND),
        ({"sink": "orders", "partition": 1}, Reason.INVALID_PARTITION),
        ({"sink": "orders", "start_offset": 5, "end_offset": 4}, Reason.INVALID_RANGE),
        ({"sink": "orders", "start_offset": 2**62}, Reason.OFFSET_AHEAD),
    ],
)
def test_a_wrong_wish_is_refused(
    broker: BrokerServer, client: Client, fields: dict[str, object], reason: Reason
) -> None:
    fill(client)
    request = pb.ReplayRequest(**fields)  # type: ignore[arg-type]
    with grpc.insecure_channel(broker.endpoint) as channel, pytest.raises(grpc.RpcError) as failure:
        list(BufferServiceStub(channel).Replay(request))

    assert from_call(failure.value).reason == reason.name


def test_followers_that_went_away_leave_nothing_behind(broker: BrokerServer, client: Client) -> None:
    fill(client, calls=1)
    assert broker.loop is not None

    async def tasks() -> int:
        return len(asyncio.all_tasks())

    def count() -> int:
        assert broker.loop is not None
        return asyncio.run_coroutine_threadsafe(tasks(), broker.loop).result(10)

    with grpc.insecure_channel(broker.endpoint) as channel:
        before = count()
        for _ in range(20):
            call = BufferServiceStub(channel).Replay(pb.ReplayRequest(sink="orders", follow=True))
            next(call)
            next(call)
            call.cancel()
        for _ in range(1_000):
            if broker.serving is not None and len(broker.serving.broker.streams) == 0 and count() <= before:
                break
            threading.Event().wait(0.005)

        assert count() <= before


def test_a_follower_is_notified_when_the_broker_stops() -> None:
    with BrokerServer.in_memory() as server:
        settings = ClientSettings(reattach_timeout_s=0.0)
        with Client(server.endpoint, settings=settings) as client:
            fill(client, calls=1)
            steps = client.replay("orders", partition=0, follow=True)
            for _ in range(10):
                next(steps)
            server.stop()

            with pytest.raises(BrokerUnavailable):
                next(steps)
