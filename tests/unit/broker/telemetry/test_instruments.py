"""Telemetry of a running broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind

from forebay.broker.core.delivery.lane import Answer
from forebay.broker.core.delivery.leased_sets import Wanted
from forebay.broker.core.errors import SinkFull, StoreFenced
from forebay.broker.core.partition.pages import TRACES_MAX, Body, PagePart
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.resources.connections import ConnectionLimits
from forebay.broker.core.settings import BufferMode, Ordering, Overflow, SinkSettings
from forebay.broker.runtime.broker import Bounds, Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.runtime.instruments import Lag, Limit, SinkMeasure
from forebay.broker.runtime.metrics import EVENTS, Metric
from forebay.broker.runtime.resources.connections import Connections
from forebay.broker.runtime.resources.memory import Reading
from forebay.broker.runtime.resources.streams import StreamKind
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.statistics import sink_lags
from forebay.broker.settings import load
from forebay.broker.storage.store.contract import WriteStall
from forebay.broker.storage.store.memory import MemoryStore
from forebay.broker.telemetry import series
from forebay.broker.telemetry.exporter_selection import ExporterSelectionInvalid
from forebay.broker.telemetry.instruments import OpenTelemetryInstruments, instruments
from forebay.broker.telemetry.sampling import following_links
from forebay.broker.telemetry.series import SERIES_MAX
from tests.support.brokers.connections import OpenSockets, calling
from tests.support.brokers.running import Hand, begin, move, running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import entry, page
from tests.support.telemetry.observed import Observed, Point

pytestmark = pytest.mark.anyio
TRACE = "00-{:032x}-{:016x}-01"
START_US = FakeClock().wall


@pytest.fixture
def anyio_backend() -> str:
    """The broker runs on asyncio."""
    return "asyncio"


@pytest.fixture
def seen() -> Observed:
    """Providers of the test's own."""
    return Observed()


def exporting_to(
    seen: Observed, *, exports: bool = True, clock: Callable[[], float] = lambda: 0.0
) -> OpenTelemetryInstruments:
    """The broker's instruments over these providers."""
    meter, tracer = seen.meters.get_meter("test"), seen.tracers.get_tracer("test")
    return OpenTelemetryInstruments(meter, tracer, exports=exports, clock=clock)


@asynccontextmanager
async def observed(
    seen: Observed, clock: FakeClock | None = None, store: MemoryStore | None = None, **settings: Any
) -> AsyncIterator[tuple[Broker, Buffer]]:
    """A broker that exports to ``seen``, and its sink `orders`."""
    exporting = exporting_to(seen)
    async with running(store, clock or FakeClock(), instruments=exporting) as broker:
        exporting.watch(broker)
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1, **settings))
        yield broker, buffer


async def append(buffer: Buffer, *values: bytes, partition: int = 0, traceparent: str = "") -> None:
    """Append one page and wait until it is durable."""
    await (await buffer.append(page(*values, partition=partition, traceparent=traceparent))).done


async def taken(hand: Hand, partition: int = 0) -> Delivered:
    """The next delivery."""
    event = await hand.take(partition)
    assert isinstance(event, Delivered)
    return event


async def measure(broker: Broker, exporting: Buffer) -> None:
    """Measure the lag now, as the sweeper does every second."""
    await broker.housekeeping.measure(exporting)


async def test_durable_appends_are_counted_and_timed(seen: Observed) -> None:
    async with observed(seen, partitions=2) as (broker, buffer):
        await append(buffer, b"a", b"bc")
        await append(buffer, b"d", partition=1)
        size = buffer.logs[0].size
        groups = broker.committer.groups

        assert seen.values("forebay.ingest.records", "sink", "partition") == {("orders", "0"): 2, ("orders", "1"): 1}
        assert seen.values("forebay.ingest.bytes", "partition")["0",] == size
        assert [point.count for point in seen.points("forebay.ingest.duration")] == [2]
        assert [point.count for point in seen.points("forebay.storage.sync.duration")] == [groups]


async def test_the_time_to_durable_is_that_of_the_broker_s_own_clock(seen: Observed) -> None:
    exporting_to(seen).ingested("orders", 0, [entry(0, age_us=1_000_000), entry(1, age_us=1_500_000)], 2_000_000)

    assert seen.points("forebay.ingest.duration") == [Point({"sink": "orders"}, 1.5, 2)]


async def test_a_delivered_page_has_a_span_from_accepted_to_delivered_linked_to_its_publisher(seen: Observed) -> None:
    clock = FakeClock()
    async with observed(seen, clock, partitions=2) as (_, buffer):
        await append(buffer, b"a", b"b", partition=1, traceparent=TRACE.format(7, 9))
        clock.advance(5)
        await taken(Hand(buffer.subscription("")), 1)

    [span] = seen.spans()
    assert (span.name, span.kind, span.parent) == ("buffer orders", SpanKind.INTERNAL, None)
    assert (span.start_time, span.end_time) == (START_US * 1_000, (START_US + 5_000_000) * 1_000)
    assert [(link.context.trace_id, link.context.span_id) for link in span.links] == [(7, 9)]
    assert dict(span.attributes or {}) == {
        "messaging.system": "forebay",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "1",
        "messaging.consumer.group.name": "default",
        "messaging.batch.message_count": 2,
    }


@pytest.mark.parametrize(("flags", "spans"), [("01", 1), ("03", 1), ("00", 0)])
async def test_the_span_of_a_page_is_sampled_by_its_publisher(flags: str, spans: int, seen: Observed) -> None:
    seen.tracers.sampler = following_links(ParentBased(TraceIdRatioBased(0.0)))
    async with observed(seen) as (_, buffer):
        await append(buffer, b"a", traceparent=TRACE.format(7, 9)[:-2] + flags)
        await taken(Hand(buffer.subscription("")))

    assert [[link.context.span_id for link in span.links] for span in seen.spans()] == [[9]] * spans


async def test_a_page_is_linked_to_its_publisher_whose_span_is_not_sampled(seen: Observed) -> None:
    async with observed(seen) as (_, buffer):
        await append(buffer, b"a", traceparent=TRACE.format(7, 9)[:-2] + "00")
        await taken(Hand(buffer.subscription("")))

    [span] = seen.spans()
    assert [link.context.span_id for link in span.links] == [9]


async def test_the_link_to_the_publisher_outlives_the_broker(seen: Observed) -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await append(buffer, b"a", traceparent=TRACE.format(7, 9))

    exporting = exporting_to(seen)
    async with running(store.crash(), instruments=exporting) as broker:
        await taken(Hand(broker.sink("orders").subscription("")))

    [span] = seen.spans("buffer orders")
    assert [link.context.span_id for link in span.links] == [9]


async def test_a_page_keeps_the_first_publishers_now_as_after_a_restart(seen: Observed) -> None:
    count = TRACES_MAX + 4
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=count))
        appends = await buffer.append_all([page(b"x", traceparent=TRACE.format(1, n + 1)) for n in range(count)])
        for one in appends:
            await one.done
        now = await taken(Hand(buffer.subscription("")))

    async with running(store.crash()) as broker:
        later = await taken(Hand(broker.sink("orders").subscription("")))

    [before], [after] = now.pages, later.pages
    assert before[0].parts == after[0].parts
    assert [part.traceparent != "" for part in before[0].parts] == [True] * TRACES_MAX + [False] * 4


async def test_no_span_is_linked_to_what_is_no_context(seen: Observed) -> None:
    parts = tuple(PagePart(0, 0, text) for text in ("", "?", "00-0-0-00", TRACE.format(0, 1)))
    pages = ((replace(entry(0), parts=parts), Body(0, b"")),)
    event = Delivered(0, 1, 0, pages, (Range(0, 1),), (), resend=False)

    exporting_to(seen).delivered("orders", "default", event, 0, START_US)

    assert [list(span.links) for span in seen.spans()] == [[]]


async def test_redeliveries_are_counted_by_records(seen: Observed) -> None:
    async with observed(seen) as (_, buffer):
        for value in (b"a", b"b"):
            await append(buffer, value)
        subscription = buffer.subscription("")
        hand = Hand(subscription)
        first = await taken(hand)
        answer = Answer(first.owner_epoch, first.revision)
        subscription.retry(0, answer, [Range(1, 2)], delay_s=0.0, reason="a secret")
        await taken(hand)

        assert seen.values("forebay.redelivered.records", "sink", "partition") == {("orders", "0"): 1}
        assert seen.values("forebay.delivery.failures", "sink", "group", "reason") == {("orders", "default", "nack"): 1}
        assert seen.values("forebay.delivered.records", "sink", "partition", "group") == {("orders", "0", "default"): 3}


async def test_records_leased_in_a_set_count_as_redelivered_and_an_expired_lease_as_a_failure(seen: Observed) -> None:
    clock = FakeClock()
    async with observed(seen, clock) as (_, buffer):
        for value in (b"a", b"b"):
            await append(buffer, value)
        await buffer.change(replace(buffer.settings, ordering=Ordering.RELAXED, ack_deadline_us=600_000_000))
        subscription = buffer.subscription("")
        first = await taken(Hand(subscription))
        subscription.retry(0, Answer(first.owner_epoch, first.revision), [Range(1, 2)], delay_s=0.0, reason="")
        await subscription.leasing.lease("spark", Wanted(10), 60.0)
        clock.advance(60)
        subscription.process_timers()

        assert seen.values("forebay.redelivered.records", "sink", "partition") == {("orders", "0"): 1}
        assert seen.values("forebay.delivered.records", "sink", "partition", "group") == {("orders", "0", "default"): 3}
        assert seen.values("forebay.delivery.failures", "sink", "group", "reason") == {
            ("orders", "default", "nack"): 1,
            ("orders", "default", "deadline"): 1,
        }


async def test_acked_records_are_counted_and_their_residence_is_measured_from_acceptance_to_settlement(
    seen: Observed,
) -> None:
    clock = FakeClock()
    async with observed(seen, clock) as (_, buffer):
        await append(buffer, b"a", b"b")
        clock.advance(2)
        event = await taken(Hand(buffer.subscription("")))
        answer = Answer(event.owner_epoch, event.revision)
        clock.advance(5)
        await buffer.subscription("").ack(0, answer, [Range(0, 1)])
        half = seen.points("forebay.residence.duration")
        await buffer.subscription("").ack(0, answer, [Range(0, 2)])

        assert half == []
        assert seen.points("forebay.residence.duration") == [Point({"sink": "orders", "group": "default"}, 7.0, 1)]
        outcomes = seen.values("forebay.settled.records", "sink", "partition", "group", "outcome")
        assert outcomes == {("orders", "0", "default", "acked"): 2}


async def test_dropped_records_are_counted_by_reason_and_settle_the_pending_ones(seen: Observed) -> None:
    async with observed(seen, max_disk_cache=2, overflow=Overflow.DROP_OLDEST) as (_, buffer):
        for number in range(5):
            await append(buffer, b"%d" % number)

        dropped = seen.values("forebay.dropped.records", "sink", "partition", "reason")
        assert dropped == {("orders", "0", "OVERFLOW"): 3}
        assert seen.values("forebay.settled.records", "outcome") == {("dropped",): 3}


async def test_a_seek_skips_what_was_pending(seen: Observed) -> None:
    async with observed(seen) as (_, buffer):
        for value in (b"a", b"b", b"c"):
            await append(buffer, value)
        await move(buffer.subscription(""), 0, 2)

        assert seen.values("forebay.settled.records", "outcome") == {("skipped",): 3}


async def test_depth_and_lag_are_reported_as_they_are_now(seen: Observed) -> None:
    clock = FakeClock()
    async with observed(seen, clock) as (broker, buffer):
        await append(buffer, b"first")
        clock.advance(3)
        await append(buffer, b"second", b"third")
        event = await taken(Hand(buffer.subscription("")))
        await buffer.subscription("").ack(0, Answer(event.owner_epoch, event.revision), [Range(0, 1)])
        clock.advance(4)
        await measure(broker, buffer)
        lag, entries = {("orders", "0", "default")}, buffer.logs[0].first_entries()

        assert seen.values("forebay.sink.depth", "sink", "partition") == {("orders", "0"): buffer.logs[0].records}
        assert seen.values("forebay.sink.size", "sink", "partition") == {("orders", "0"): buffer.logs[0].size}
        assert seen.values("forebay.subscription.lag", "sink", "partition", "group") == dict.fromkeys(lag, 2)
        assert seen.values("forebay.subscription.lag.size") == {(): list(entries)[-1].size}
        assert seen.values("forebay.subscription.lag.age") == {(): 4.0}
        assert seen.values("forebay.reader.mode") == {(): 1}
        assert seen.values("forebay.tail.size") == {(): broker.read_cache.size}


@pytest.mark.slow
async def test_an_exporter_examines_no_more_lanes_than_it_has_series(seen: Observed) -> None:
    class Lanes(list[Lag]):
        """Lanes that count how often they are iterated over."""

        walks = 0

        def __iter__(self) -> Iterator[Lag]:
            self.walks += 1
            return super().__iter__()

    exporting = exporting_to(seen)
    subscriptions = [Lanes(Lag(at, at, 10, 1_000_000 * number, None) for at in range(1_024)) for number in range(4)]
    for number, lanes in enumerate(subscriptions):
        exporting.measured("wide", f"s{number}", lanes, "flowing")
        lanes.walks = 0

    lag, age = seen.points("forebay.subscription.lag"), seen.points("forebay.subscription.lag.age")

    assert len(lag) == len(age) == SERIES_MAX + 1
    assert sum(point.value for point in lag) == 4 * sum(range(1_024))
    assert age[-1].value == 3.0
    assert seen.points("forebay.reader.mode") == []
    assert [lanes.walks for lanes in subscriptions] == [0] * 4


async def test_the_age_grows_between_two_measurements_where_a_record_waits(seen: Observed) -> None:
    now = [100.0]
    exporting = exporting_to(seen, clock=lambda: now[0])
    exporting.measured("orders", "default", [Lag(0, 5, 50, 2_000_000, None), Lag(1, 0, 0, 0, None)], "flowing")
    now[0] += 0.75

    assert [point.value for point in seen.points("forebay.subscription.lag.age")] == [2.75, 0.0]
    assert [point.value for point in seen.points("forebay.subscription.lag")] == [5, 0]
    exporting.measured("orders", "default", [Lag(0, 5, 50, 1_000_000, None), Lag(1, 0, 0, 0, None)], "flowing")
    assert [point.value for point in seen.points("forebay.subscription.lag.age")] == [1.0, 0.0]


async def test_the_age_of_a_replay_grows_between_two_measurements(seen: Observed) -> None:
    now = [100.0]
    exporting = exporting_to(seen, clock=lambda: now[0])
    exporting.replays_measured("orders", [Lag(0, 5, 50, 2_000_000, None)])
    now[0] += 0.5

    assert [point.value for point in seen.points("forebay.replay.lag.age")] == [2.5]


async def test_the_age_beyond_the_series_limit_is_that_of_what_waits_for_a_consumer(
    seen: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "SERIES_MAX", 1)
    exporting = exporting_to(seen)
    for name, age_s in (("orders", 1), ("orders.dlq", 900), ("bills", 2), ("bills.dlq", 800)):
        exporting.measured(name, "default", [Lag(0, 5, 50, age_s * 1_000_000, None)], "flowing")

    assert [point.value for point in seen.points("forebay.subscription.lag.age")] == [1.0, 2.0]
    assert [point.value for point in seen.points("forebay.subscription.lag")] == [5, 15]


async def test_sinks_beyond_the_series_limit_are_reported_as_the_sum_of_their_measurements(
    seen: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "SERIES_MAX", 2)
    async with observed(seen, partitions=2) as (broker, buffer):
        other, _ = await broker.create("other", SinkSettings(partitions=2))
        for each in (buffer, other):
            await append(each, b"a", b"b")
        before = [point.value for point in seen.points("forebay.sink.depth")]
        broker.instruments.sink_measured("other", SinkMeasure(7, 70, "idle", 0.0, 0, None, replays=0))

        assert before == [2, 0, 2], "a sink that was not measured yet is looked at"
        assert [point.value for point in seen.points("forebay.sink.depth")] == [2, 0, 7]
        assert seen.points("forebay.sink.size")[-1].value == 70


async def test_new_sinks_and_states_have_series_after_many_others_were_deleted(seen: Observed) -> None:
    exporting = exporting_to(seen)
    measure = SinkMeasure(7, 70, "idle", 0.0, 0, None, replays=0)
    for part in range(3):
        names = [f"s{number}" for number in range(part * 900, (part + 1) * 900)]
        for name in names:
            exporting.sink_measured(name, measure)
        assert len(seen.points("forebay.sink.state")) == len(names)
        for name in names:
            exporting.forgotten(name)

    exporting.sink_measured("last", replace(measure, state="paused"))

    assert seen.values("forebay.sink.state", "sink", "state") == {("last", "paused"): 1}


async def test_the_slowest_replay_of_a_partition_reports_its_mode_its_position_and_both_paths_of_its_lag(
    seen: Observed,
) -> None:
    async with observed(seen) as (broker, buffer):
        await append(buffer, b"a", b"b")
        with buffer.readers.opened(0, "quick") as quick, buffer.readers.opened(0, "slow") as slow:
            quick.position, slow.position = 2, 0
            slow.read_from(realtime=True)
            slow.read_from(realtime=False)
            await measure(broker, buffer)

            assert seen.values("forebay.sink.replays", "sink") == {("orders",): 2}
            assert seen.values("forebay.replay.position", "sink", "partition") == {("orders", "0"): 0}
            assert seen.values("forebay.replay.lag", "sink", "partition") == {("orders", "0"): 2}
            assert seen.values("forebay.replay.mode", "sink", "partition") == {("orders", "0"): 2}
            assert seen.values("forebay.replay.realtime.lag", "sink", "partition") == {("orders", "0"): 2}
            assert seen.values("forebay.replay.catchup.lag", "sink", "partition") == {("orders", "0"): 0}
            assert seen.values("forebay.replay.lag.size", "sink", "partition") == {("orders", "0"): buffer.logs[0].size}
            assert seen.values("forebay.replay.mode.switches", "sink", "partition") == {("orders", "0"): 1}

        await measure(broker, buffer)

        assert seen.values("forebay.sink.replays", "sink") == {("orders",): 0}
        assert seen.points("forebay.replay.lag") == []


async def test_sinks_report_their_state_the_used_part_of_their_limit_and_their_dead_letters(seen: Observed) -> None:
    async with observed(seen, max_disk_cache=4, dlq_ratio_max=1.0) as (broker, buffer):
        await append(buffer, b"a", b"b")
        await append(buffer, b"c")
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await buffer.subscription("").reject(0, taker.answer(), [Range(0, 1)], reason="no")
        buffer.subscription("").leave(taker.consumer)
        before = seen.points("forebay.sink.state")
        await measure(broker, buffer)

        assert before == []
        assert seen.values("forebay.sink.state", "sink", "state") == {("orders", "flowing"): 1}
        assert seen.values("forebay.subscription.state", "group", "state") == {("default", "flowing"): 1}
        assert seen.values("forebay.sink.limit.used", "sink") == {("orders",): 0.75}
        assert seen.values("forebay.sink.dead_letters", "sink") == {("orders",): 1}
        assert seen.values("forebay.sink.staged.size", "sink") == {("orders",): 0}


@pytest.mark.parametrize(
    ("settings", "records"),
    [
        ({"max_disk_cache": 4}, {("orders", "max_disk_cache"): 4}),
        (
            {"buffer_mode": BufferMode.SPILL, "memory_cache_threshold": 16, "max_disk_cache": 4},
            {("orders", "memory_cache_threshold + max_disk_cache"): 20},
        ),
        ({}, {}),
    ],
    ids=["limited", "spilling", "unlimited"],
)
async def test_sinks_report_their_limits_by_their_settings_and_none_where_there_is_none(
    seen: Observed, settings: dict[str, Any], records: dict[tuple[str, str], int]
) -> None:
    async with observed(seen, max_total_bytes=1 << 20, **settings) as (broker, buffer):
        await measure(broker, buffer)

        assert seen.values("forebay.sink.depth.limit", "sink", "limit") == records
        assert seen.values("forebay.sink.size.limit", "sink", "limit") == {("orders", "max_total_bytes"): 1 << 20}


async def test_a_changed_limit_replaces_the_one_before(seen: Observed) -> None:
    async with observed(seen, max_disk_cache=4) as (broker, buffer):
        await measure(broker, buffer)
        before = seen.values("forebay.sink.depth.limit", "sink", "limit")
        await buffer.change(replace(buffer.settings, buffer_mode=BufferMode.MEMORY, memory_cache_threshold=7))
        await measure(broker, buffer)

        assert before == {("orders", "max_disk_cache"): 4}
        assert seen.values("forebay.sink.depth.limit", "sink", "limit") == {("orders", "memory_cache_threshold"): 7}


async def test_limits_of_sinks_beyond_the_series_limit_are_reported_as_their_sum(
    seen: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "SERIES_MAX", 1)
    exporting = exporting_to(seen)
    for number in range(3):
        limit = Limit("max_total_bytes", 10**number)
        exporting.sink_measured(f"s{number}", SinkMeasure(0, 0, "idle", 0.0, 0, None, replays=0, size_limit=limit))

    assert [point.value for point in seen.points("forebay.sink.size.limit")] == [1, 110]
    assert seen.points("forebay.sink.depth.limit") == []


async def test_an_append_that_finds_no_room_is_counted_by_its_reason(seen: Observed) -> None:
    async with observed(seen, max_disk_cache=1) as (_, buffer):
        await append(buffer, b"a")
        for _ in range(2):
            with pytest.raises(SinkFull):
                await append(buffer, b"b")

        assert seen.values("forebay.ingest.refused", "sink", "reason") == {("orders", "SINK_FULL"): 2}


async def test_disk_and_memory_are_reported_beside_their_limits(seen: Observed) -> None:
    store = MemoryStore()
    store.room, store.stall, store.stall_s = 123 << 20, WriteStall.SLOWED, 1.5
    async with observed(seen, store=store) as (broker, _):
        broker.committer.check_disk()
        broker.memory.worst = Reading("process", 100, 1_000)

        assert seen.values("forebay.disk.free") == {(): 123 << 20}
        assert seen.values("forebay.memory.used") == {(): 100}
        assert seen.values("forebay.memory.watermark") == {(): 1_000 * broker.bounds.memory_high_watermark}
        assert seen.values("forebay.storage.write.stall") == {(): 1}
        assert seen.values("forebay.storage.write.stall.time") == {(): 1.5}


async def test_the_broker_reports_the_limits_of_its_pages_and_streams_beside_what_is_used(seen: Observed) -> None:
    exporting = exporting_to(seen)
    bounds = Bounds(streams=9, stream_bytes=64 << 20, stored_bytes=1 << 30)
    async with running(bounds=bounds, instruments=exporting) as broker:
        exporting.watch(broker)
        buffer, _ = await broker.create("orders", SinkSettings())
        await append(buffer, b"a", b"b")
        with broker.stream_memory.share() as share:
            share.acquire(1_000)

            assert seen.values("forebay.broker.size") == {(): buffer.logs[0].size}
            assert seen.values("forebay.broker.size.limit") == {(): 1 << 30}
            assert seen.values("forebay.streams.limit") == {(): 9}
            assert seen.values("forebay.streams.size") == {(): 1_000}
            assert seen.values("forebay.streams.size.limit") == {(): 64 << 20}


async def test_a_broker_without_a_limit_of_its_pages_reports_none(seen: Observed) -> None:
    async with observed(seen):
        assert seen.values("forebay.broker.size") == {(): 0}
        assert seen.points("forebay.broker.size.limit") == []


async def test_open_streams_are_reported_until_they_end(seen: Observed) -> None:
    async with observed(seen) as (broker, _):
        with (
            broker.streams.opened(StreamKind.PUBLISH, "ipv4:192.0.2.1:1", "ops"),
            broker.streams.opened(StreamKind.REPLAY, "ipv4:192.0.2.1:2", "ops"),
        ):
            during = seen.values("forebay.streams")

        assert during == {(): 2}
        assert seen.values("forebay.streams") == {(): 0}


async def test_connections_are_reported_by_their_use_beside_their_limit(seen: Observed) -> None:
    exporting, sockets = exporting_to(seen), OpenSockets()
    connections = Connections(ConnectionLimits(total_max=16, per_host_max=8, unread_max=1 << 20), lambda: 0.0)
    exporting.watch_connections(connections)
    sockets.add(6)
    with calling(connections, 1), calling(connections, 2):
        with calling(connections, 3):
            pass
        await connections.check(sockets)

    assert seen.values("forebay.connections", "use") == {("busy",): 2, ("idle",): 1, ("stranger",): 3}
    assert seen.values("forebay.connections.limit") == {(): 16}


async def test_the_state_of_the_broker_is_reported_to_its_end(seen: Observed) -> None:
    store = MemoryStore()
    exporting = exporting_to(seen)
    broker = begin(store, FakeClock(), instruments=exporting)
    exporting.watch(broker)
    states = [seen.values("forebay.info", "state")]
    await broker.create("orders", SinkSettings())
    store.fail_next("sync")
    with pytest.raises(StoreFenced):
        await append(broker.sink("orders"), b"a")
    states.append(seen.values("forebay.info", "state"))
    await broker.close()

    assert states == [{("serving",): 1}, {("fenced",): 1}]
    assert {"forebay.storage.write.stall", "forebay.storage.write.stall.time"}.isdisjoint(seen.metrics())


async def test_lag_is_measured_from_the_first_time_it_is_requested(seen: Observed) -> None:
    exporting = exporting_to(seen, exports=False)
    before = exporting.wants_lag

    seen.metrics()

    assert (before, exporting.wants_lag) == (False, True)
    assert exporting_to(Observed(), exports=True).wants_lag


async def test_a_deleted_sink_has_no_gauges_any_more(seen: Observed) -> None:
    async with observed(seen) as (broker, buffer):
        await append(buffer, b"a")
        await measure(broker, buffer)
        await broker.delete("orders", force=True)

        metrics = seen.metrics()
        assert "forebay.sink.depth" not in metrics
        assert "forebay.sink.state" not in metrics
        assert "forebay.subscription.state" not in metrics
        assert "forebay.subscription.lag" not in metrics


async def test_a_sink_that_is_deleted_while_it_is_measured_has_no_gauges(
    seen: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with observed(seen) as (broker, buffer):
        await append(buffer, b"a")

        async def delete_meanwhile(exporting: Buffer) -> Any:
            found = await sink_lags(exporting)
            await broker.delete("orders", force=True)
            return found

        monkeypatch.setattr("forebay.broker.runtime.housekeeping.sink_lags", delete_meanwhile)
        await measure(broker, buffer)

        assert not [name for name in seen.metrics() if name in {"forebay.sink.depth", "forebay.sink.state"}]


async def test_neither_records_nor_reasons_in_words_of_a_caller_get_out(seen: Observed) -> None:
    async with observed(seen) as (broker, buffer):
        await append(buffer, b"payload-unspoken", traceparent=TRACE.format(1, 1))
        subscription = buffer.subscription("")
        event = await taken(Hand(subscription))
        await subscription.reject(0, Answer(event.owner_epoch, event.revision), [Range(0, 1)], reason="secret-untold")
        await measure(broker, buffer)
        exported = repr(seen.metrics()) + "".join(span.to_json() for span in seen.spans())

    assert "orders" in exported
    assert "unspoken" not in exported
    assert "untold" not in exported


def test_without_exporters_a_broker_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_METRICS_EXPORTER", "OTEL_TRACES_EXPORTER"):
        monkeypatch.delenv(name, raising=False)

    exporting = instruments(load())

    assert (exporting.wants_lag, exporting.metrics_url) == (False, "")
    exporting.close()


def test_metrics_for_a_network_are_announced_loudly_and_those_on_loopback_are_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_METRICS_EXPORTER", "OTEL_TRACES_EXPORTER"):
        monkeypatch.delenv(name, raising=False)

    instruments(load(metrics_listen="127.0.0.1:0")).close()
    assert "METRICS ARE OPEN" not in caplog.text
    instruments(load(metrics_listen="0.0.0.0:0", metrics_allow_anonymous=True)).close()
    assert "METRICS ARE OPEN: every caller that reaches 0.0.0.0:0" in caplog.text


def test_a_variable_does_not_open_metrics_that_the_settings_keep_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "prometheus")
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_HOST", "0.0.0.0")
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")

    with pytest.raises(
        ExporterSelectionInvalid, match=r"OTEL_EXPORTER_PROMETHEUS_HOST = '0\.0\.0\.0'.*metrics_allow_anonymous"
    ):
        instruments(load())


@pytest.mark.parametrize("metric", EVENTS, ids=lambda metric: metric.name)
def test_an_amount_of_any_metric_is_exported_with_its_labels_by_its_row_alone(metric: Metric, seen: Observed) -> None:
    exporting_to(seen).add(metric, 3, metric.labels)

    [point] = seen.points(metric.name)
    assert point.value == 3
    assert len(point.at) == len(metric.labels)


@pytest.mark.parametrize(("flags", "exemplars"), [("01", [(7, 8)]), ("00", [])])
async def test_the_time_until_a_page_is_durable_has_its_sampled_publisher_as_exemplar(
    seen: Observed, flags: str, exemplars: list[tuple[int, int]]
) -> None:
    async with observed(seen) as (_, buffer):
        await append(buffer, b"a", traceparent=f"{TRACE.format(7, 8)[:-2]}{flags}")

        assert seen.exemplars()["forebay.ingest.duration"] == exemplars


@pytest.mark.parametrize(("flags", "exemplars"), [("01", [(7, 8)]), ("03", [(7, 8)]), ("00", [])])
async def test_the_residence_of_a_page_has_its_sampled_publisher_as_exemplar(
    seen: Observed, flags: str, exemplars: list[tuple[int, int]]
) -> None:
    async with observed(seen) as (_, buffer):
        await append(buffer, b"a", traceparent=f"{TRACE.format(7, 8)[:-2]}{flags}")
        event = await taken(Hand(buffer.subscription("")))
        await buffer.subscription("").ack(0, Answer(event.owner_epoch, event.revision), [Range(0, 1)])

        assert seen.exemplars()["forebay.residence.duration"] == exemplars


@pytest.mark.parametrize("way", ["redelivered", "leased", "leased again"])
async def test_the_residence_of_a_page_that_failed_has_its_sampled_publisher_as_exemplar(
    seen: Observed, way: str
) -> None:
    async with observed(seen, ordering=Ordering.RELAXED) as (_, buffer):
        await append(buffer, b"a", traceparent=TRACE.format(7, 8))
        subscription = buffer.subscription("")
        hand = Hand(subscription)
        event = await taken(hand)
        subscription.retry(0, Answer(event.owner_epoch, event.revision), [Range(0, 1)], delay_s=0.0, reason="")
        if way == "redelivered":
            event = await taken(hand)
            await subscription.ack(0, Answer(event.owner_epoch, event.revision), [Range(0, 1)])
        else:
            leased = await subscription.leasing.lease("spark", Wanted(10), 60.0)
            if way == "leased again":
                subscription.leasing.release("spark")
                leased = await subscription.leasing.lease_again("spark", leased, 60.0)
            await subscription.leasing.settle("spark", leased)

        assert seen.exemplars()["forebay.residence.duration"] == [(7, 8)]


@pytest.mark.parametrize(
    ("traceparent", "exemplars"),
    [(TRACE.format(7, 8), [(7, 8)]), (f"{TRACE.format(7, 8)[:-2]}00", []), ("", []), ("no-context-01", [])],
    ids=["sampled", "not sampled", "none", "invalid"],
)
def test_the_duration_of_a_call_has_the_sampled_span_of_its_caller_as_exemplar(
    seen: Observed, traceparent: str, exemplars: list[tuple[int, int]]
) -> None:
    exporting_to(seen).answered("forebay.v1.BufferService/PublishBatch", "OK", 0.1, traceparent)

    assert seen.exemplars()["rpc.server.call.duration"] == exemplars
