"""Consumers with saved positions, against a whole broker in memory: outages while they run, and their end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, Record
from forebay.client.errors import Closed, PositionStoreError, PositionStoreUnavailable
from forebay.client.positions.consumer import Batch, CheckpointedConsumer
from forebay.client.positions.settings import ConsumerSettings
from forebay.client.positions.store import PositionStore
from forebay.client.positions.stores.memory import MemoryPositions
from forebay.client.transport.channel import Channels
from tests.support.calls.eventually import until
from tests.support.positions.flaky import FlakyPositions

WAIT_S = 20.0
Place = tuple[int, int]


class Clock:
    """Monotonic clock that can be put forward."""

    skipped_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.skipped_s


@pytest.fixture
def broker() -> Iterator[BrokerServer]:
    with BrokerServer.in_memory() as one:
        yield one


@pytest.fixture
def client(broker: BrokerServer) -> Iterator[Client]:
    """Client of a sink with one partition of four pages."""
    with Client(broker.endpoint) as one:
        one.sinks.create("orders", buffer_page_size=1)
        for _ in range(4):
            one.publish("orders", [Record(b"x")])
        yield one


@pytest.fixture
def clock() -> Clock:
    return Clock()


@contextmanager
def consumer(
    client: Client,
    clock: Clock,
    store: PositionStore | None = None,
    *,
    guarantee: str = "at_least_once",
    on_misfit: str = "error",
) -> Iterator[CheckpointedConsumer]:
    settings = ConsumerSettings(guarantee=guarantee, on_misfit=on_misfit, frequency_s=3600.0)
    with CheckpointedConsumer(
        Channels(client.endpoints, client.settings),
        *("orders", "billing"),
        store=MemoryPositions() if store is None else store,
        settings=settings,
        clock=clock,
    ) as one:
        yield one


def place(batch: Batch | None) -> Place:
    assert batch is not None
    return batch.partition, batch.first_offset


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "forebay.client.positions.consumer"]


def test_a_look_for_added_partitions_while_the_broker_is_unreachable_leaves_the_consumer_running(
    client: Client, broker: BrokerServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with consumer(client, clock) as one:
        assert place(one.take(WAIT_S)) == (0, 0)
        until(lambda: len(one._readers._queue) == 3)
        broker.stop()
        found = []
        for _ in range(3):
            clock.skipped_s += 60.0
            found.append(place(one.take(WAIT_S)))

    assert found == [(0, 1), (0, 2), (0, 3)]
    [line] = logged(caplog)  # one per outage, not one per look
    assert line.startswith("added partitions were not looked for sink=orders consumer=billing reason=")
    assert "retry_in_s=30" in line


def test_a_partition_that_was_added_while_the_store_is_unreachable_is_opened_by_a_later_look(
    client: Client, clock: Clock
) -> None:
    store = FlakyPositions(MemoryPositions())
    with consumer(client, clock, store) as one:
        assert place(one.take(WAIT_S)) == (0, 0)
        client.sinks.update("orders", partitions=2)
        client.publish("orders", [Record(b"x")], partition=1)
        store.failures.append("before")
        clock.skipped_s += 60.0
        assert place(one.take(WAIT_S)) == (0, 1)
        clock.skipped_s += 60.0
        found = [place(one.take(WAIT_S)) for _ in range(3)]

    assert sorted(found) == [(0, 2), (0, 3), (1, 0)]


def test_a_store_that_refuses_a_partition_that_was_added_ends_the_consumer(client: Client, clock: Clock) -> None:
    class Refusing(MemoryPositions):
        def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
            if key.endswith("/1"):
                raise PositionStoreError("no right to write")
            return super().compare_and_write(key, document, expected)

    with consumer(client, clock, Refusing()) as one:
        assert place(one.take(WAIT_S)) == (0, 0)
        client.sinks.update("orders", partitions=2)
        clock.skipped_s += 60.0
        with pytest.raises(PositionStoreError, match="no right"):
            one.take(WAIT_S)


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_a_loop_over_a_consumer_that_is_closed_meanwhile_ends_without_an_error(
    client: Client, clock: Clock, guarantee: str
) -> None:
    found = []
    with consumer(client, clock, guarantee=guarantee) as one:
        for batch in one:
            found.append(place(batch))
            one.close()  # as a signal handler or another thread

    assert found == [(0, 0)]


def test_a_batch_that_a_program_finishes_after_the_close_is_refused_and_read_again(
    client: Client, clock: Clock
) -> None:
    store = MemoryPositions()
    with consumer(client, clock, store) as one:
        batch = one.take(WAIT_S)
        assert batch is not None
        one.close()
        with pytest.raises(Closed):
            batch.finish()

    with consumer(client, clock, store) as again:
        assert place(again.take(WAIT_S)) == (0, 0)


def trimmed(client: Client, clock: Clock) -> FlakyPositions:
    """Return a store with position 1 of a sink whose earliest record is 4, and whose end is 5."""
    store = FlakyPositions(MemoryPositions())
    with consumer(client, clock, store) as one:
        batch = one.take(WAIT_S)
        assert batch is not None
        batch.finish()
    client.subscriptions.settle("orders", offsets={0: 4})
    client.publish("orders", [Record(b"x")])
    return store


@pytest.mark.parametrize(("on_misfit", "last"), [("earliest", 3), ("latest", 4)])
def test_the_gap_of_a_trimmed_position_is_handed_out_by_a_start_that_is_repeated(
    client: Client, clock: Clock, on_misfit: str, last: int
) -> None:
    store = trimmed(client, clock)
    with consumer(client, clock, store, on_misfit=on_misfit) as one:
        store.failures.append("after")
        with pytest.raises(PositionStoreUnavailable):
            one.take(WAIT_S)
        gap = one.take(WAIT_S)
        client.publish("orders", [Record(b"y")])
        batch = one.take(WAIT_S)
        one.save()
        assert one.statistics.saved == {0: last + 1}

    assert gap is not None
    assert gap.gap is not None
    assert (gap.first_offset, gap.last_offset) == (1, last)
    assert place(batch) == (0, last + 1)


def test_the_gap_of_a_trimmed_position_is_handed_out_after_a_start_that_ended_before_it(
    client: Client, clock: Clock
) -> None:
    store = trimmed(client, clock)
    store.failures.append("after")
    with pytest.raises(PositionStoreUnavailable), consumer(client, clock, store, on_misfit="earliest") as one:
        one.take(WAIT_S)

    with consumer(client, clock, store, on_misfit="earliest") as again:
        gap = again.take(WAIT_S)

    assert gap is not None
    assert gap.gap is not None
    assert (gap.first_offset, gap.last_offset) == (1, 3)
