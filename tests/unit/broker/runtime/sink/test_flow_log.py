from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forebay.broker.core.errors import SinkFull
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.flow_log import EVENTS_MAX, INTERVAL_S, WINDOW_S, FlowLog
from forebay.broker.runtime.sink.state import FULL_S
from forebay.state.flow import Flow
from forebay.text import fields_of
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio


class Case:
    """The sink `orders`, its log of states, and the events that were logged."""

    def __init__(self, buffer: Buffer, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
        self.buffer, self.clock, self._caplog = buffer, clock, caplog
        self._log = FlowLog(clock.monotonic)

    def sweep(self, after_s: float = INTERVAL_S) -> None:
        """Observe the sink, some time after the last sweep."""
        self.clock.advance(after_s)
        self._log.begin({self.buffer.state.id})
        self._log.observe(self.buffer.state, self.buffer.subscriptions)

    async def append(self, records: int = 1) -> None:
        """Append pages of one record each."""
        for _ in range(records):
            await (await self.buffer.append(page(b"x"))).done

    @property
    def events(self) -> list[str]:
        """The events about states, without the name of sink and subscription."""
        kinds = {"forebay.broker.runtime.sink.flow_log", "forebay.broker.runtime.sink.control"}
        found = [record.getMessage() for record in self._caplog.records if record.name in kinds]
        return [text.replace(" sink=orders", "").replace(" subscription=default", "") for text in found]


@asynccontextmanager
async def observed(caplog: pytest.LogCaptureFixture, **settings: Any) -> AsyncIterator[Case]:
    """A sink and its log."""
    clock = FakeClock()
    async with running(clock=clock) as broker:
        caplog.set_level(logging.INFO)
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1, **settings))
        yield Case(buffer, clock, caplog)


async def test_an_outage_of_a_target_is_one_event_at_its_begin_and_one_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with observed(caplog, partitions=2) as case:
        taker = Taker(case.buffer.subscription(""))
        case.sweep()
        await case.append(3)
        for _ in range(5):
            assert await taker.one()
            await taker.nack(0, 1, delay_s=30.0, reason="HTTP 503")
            for _ in range(3):
                case.sweep()
        assert await taker.one() == [0]
        await taker.ack(0, 1)
        await taker.ack(1, 1 + len(await taker.all_offsets()))
        case.sweep()

        [begin, end] = case.events

    assert begin == (
        "subscription changed state state='backing off' before='idle' before_s=10.0 changes=1 waiting=3 consumers=1 "
        "partitions_backing_off=1 reason='HTTP 503'"
    )
    assert end.startswith("subscription changed state state=")
    assert "before='backing off' before_s=150.0" in end
    assert end.endswith("waiting=0 consumers=1 partitions_backing_off=0 reason=''")


async def test_records_without_a_consumer_are_an_event_and_so_is_their_end(caplog: pytest.LogCaptureFixture) -> None:
    async with observed(caplog) as case:
        await case.append()
        for _ in range(3):
            case.sweep()
        taker = Taker(case.buffer.subscription(""))
        case.sweep()

        levels = [record.levelname for record in caplog.records if "changed state" in record.getMessage()]
        [begin, end] = case.events
        assert taker.subscription.owners.consumers

    assert levels == ["WARNING", "INFO"]
    assert "state='no consumer' before='idle'" in begin
    assert "state='flowing' before='no consumer' before_s=30.0" in end


async def test_the_states_in_the_fields_of_an_event_are_those_of_metrics_and_commands(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with observed(caplog) as case:
        await case.append()
        case.sweep()

    [fields] = [fields_of(record) for record in caplog.records if "changed state" in record.getMessage()]
    assert (fields["state"], fields["before"]) == (str(Flow.NO_CONSUMER), str(Flow.IDLE)) == ("no consumer", "idle")


async def test_a_state_that_alternates_is_logged_once_in_an_interval_with_its_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with observed(caplog) as case:
        await case.append()
        case.sweep()
        for _ in range(4):
            taker = Taker(case.buffer.subscription(""))
            case.sweep(after_s=1.0)
            taker.subscription.leave(taker.consumer, orderly=True)
            case.sweep(after_s=1.0)
        Taker(case.buffer.subscription(""))
        case.sweep()

        [first, second] = case.events

    assert "state='no consumer'" in first
    assert "state='flowing' before='no consumer' before_s=18.0 changes=9" in second


async def test_a_full_sink_is_an_event_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async with observed(caplog, max_disk_cache=2, overflow=Overflow.REJECT) as case:
        taker = Taker(case.buffer.subscription(""))
        await case.append(2)
        with pytest.raises(SinkFull):
            await case.append()
        case.sweep(after_s=1.0)
        case.sweep(after_s=1.0)
        case.sweep(after_s=FULL_S)
        await taker.all_offsets()
        await taker.ack(0, 1)
        case.sweep(after_s=1.0)

        [full, room] = [text for text in case.events if "sink" in text]

    assert full.startswith("sink became full overflow=REJECT records=2 bytes=")
    assert full.endswith("limit_used=1.00")
    assert room == "sink had room again after_s=12.0"


async def test_a_pause_is_logged_where_it_is_requested_and_once(caplog: pytest.LogCaptureFixture) -> None:
    async with observed(caplog) as case:
        Taker(case.buffer.subscription(""))
        case.sweep()
        await case.buffer.stop("maintenance")
        case.sweep()
        await case.buffer.resume()
        await case.buffer.resume()
        case.sweep()

        assert case.events == ["sink was paused reason=maintenance", "sink was resumed"]


async def test_a_start_finds_a_paused_sink_and_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    async with observed(caplog) as case:
        await case.buffer.stop("maintenance")
        caplog.clear()
        case.sweep()

        [event] = case.events

    assert event.startswith("subscription changed state state='paused'")
    assert event.endswith("reason='maintenance'")


async def test_an_outage_of_many_sinks_is_a_bounded_number_of_events(caplog: pytest.LogCaptureFixture) -> None:
    clock, beyond = FakeClock(), 7
    log = FlowLog(clock.monotonic)
    async with running(clock=clock) as broker:
        caplog.set_level(logging.INFO)
        buffers = [(await broker.create(f"s{number}", SinkSettings()))[0] for number in range(EVENTS_MAX + beyond)]
        for buffer in buffers:
            await (await buffer.append(page(b"x"))).done
        caplog.clear()  # of what the broker has logged itself; it logs nothing below, where the loop does not run
        for _ in range(2):
            log.begin({buffer.state.id for buffer in buffers})
            for buffer in buffers:
                log.observe(buffer.state, buffer.subscriptions)
            clock.advance(WINDOW_S)
        log.begin(set())

        texts = [text for text in caplog.messages if "state" in text]

    assert len(texts) == EVENTS_MAX + 1
    assert texts[-1] == f"states changed without an event of their own changes={beyond} states='no consumer: {beyond}'"
