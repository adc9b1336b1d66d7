"""Samples of a broker: what consumers settled is no other loss of records."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from forebay.broker.console.facts import Facts
from forebay.broker.console.history import SAMPLE_S, Rates
from forebay.broker.console.sampler import Sampler
from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.core.resources.connections import ConnectionLimits
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.resources.connections import Connections
from forebay.broker.runtime.sink.retention.purge import Until, purge
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running

pytestmark = pytest.mark.anyio


class Samples:
    """Rates of the sink `orders` of a broker, sample by sample."""

    def __init__(self, broker: Broker, clock: FakeClock) -> None:
        self._clock = clock
        self._sampler = Sampler(
            broker,
            Connections(ConnectionLimits(16, 16, 1 << 20), clock.monotonic),
            Facts("1", lambda: "localhost:1", clock.wall_us(), None, list),
            measure_memory=list,
        )

    async def rates(self) -> tuple[Rates, Rates]:
        """Take a sample, and return the rates of the sink and those of all sinks."""
        self._clock.advance(SAMPLE_S)
        await self._sampler.sample()
        assert self._sampler.snapshot is not None
        [figures] = self._sampler.snapshot.sinks
        return figures.rates, self._sampler.snapshot.total.now


@asynccontextmanager
async def sampled() -> AsyncIterator[tuple[Broker, Samples]]:
    """A sink of ten records that was sampled once."""
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        await fill(buffer, 10)
        samples = Samples(broker, clock)
        await samples.rates()
        yield broker, samples


async def test_purged_records_are_cleared_and_did_not_go_out() -> None:
    async with sampled() as (broker, samples):
        await purge(broker.sink("orders"), [0], Until(), committer=broker.committer, pages=broker.pages)

        assert await samples.rates() == (Rates(cleared=2.0), Rates(cleared=2.0))


async def test_settled_records_went_out() -> None:
    async with sampled() as (broker, samples):
        buffer = broker.sink("orders")
        await buffer.subscribing.settle("", {0: 5})

        assert await samples.rates() == (Rates(out=1.0, cleared=1.0), Rates(out=1.0, cleared=1.0))


async def test_records_went_out_when_the_slowest_subscription_settled_them() -> None:
    async with sampled() as (broker, samples):
        buffer = broker.sink("orders")
        await buffer.subscribing.create("audit", EARLIEST, or_earliest=False)
        await samples.rates()

        await buffer.subscribing.settle("", {0: 10})
        of_the_slowest, _ = await samples.rates()
        await buffer.subscribing.settle("audit", {0: 5})

        assert of_the_slowest == Rates()
        assert (await samples.rates())[0] == Rates(out=1.0, cleared=1.0)
