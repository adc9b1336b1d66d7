"""Takeover of partitions, against a whole broker in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, Record
from forebay.client.admin.sinks import Sinks
from forebay.client.errors import ForebayError, PositionFenced, PositionUnusable
from forebay.client.positions.position import PositionKey, SavedPosition
from forebay.client.positions.saver import TAKE_OVER_TRIES, PositionSaver
from forebay.client.positions.settings import ConsumerSettings
from forebay.client.positions.store import Versioned
from forebay.client.positions.stores.memory import MemoryPositions
from forebay.client.positions.takeover import Taken, Takeover
from forebay.client.transport.channel import Channels

KEY = PositionKey("default", "billing", "orders", 0)


class Contended(MemoryPositions):
    """Store in which another consumer takes the partition over before each write, as often as ``others`` says."""

    others = 0

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        if self.others:
            self.others -= 1
            found = self.read(key)
            super().compare_and_write(key, self._next(found), None if found is None else found.version)
        return super().compare_and_write(key, document, expected)

    def _next(self, found: Versioned | None) -> bytes:
        """Return the document of the other consumer, which finishes one record more each time."""
        written = SavedPosition.decode("", self.own if found is None else found.document)
        return replace(written, offset=written.offset + 1, epoch=written.epoch + 1, owner="other").encode()

    own = b""


@pytest.fixture
def client() -> Iterator[Client]:
    """Client of a sink with two partitions of four records."""
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as one:
        one.sinks.create("orders", partitions=2)
        for partition in range(2):
            one.publish("orders", [Record(b"x")] * 4, partition=partition)
        yield one


@contextmanager
def takeover(client: Client, store: MemoryPositions, settings: ConsumerSettings) -> Iterator[Takeover]:
    saver = PositionSaver(store, owner="own", schedule=settings.schedule)
    channels = Channels(client.endpoints, client.settings)
    try:
        yield Takeover(channels, Sinks(channels), "orders", "billing", saver, settings)
    finally:
        with suppress(ForebayError):
            saver.close(0.0)


def decided(one: Takeover, client: Client) -> list[Taken]:
    found = client.sinks.stats("orders")
    return one.decide(found, found.incarnation, (), None, {})


def contended(client: Client, others: int) -> Contended:
    store = Contended()
    start = SavedPosition(client.sinks.stats("orders").incarnation, 0, 1, "other", client.sinks.stats("orders").at)
    store.own, store.others = start.encode(), others
    return store


def test_a_decision_writes_nothing(client: Client) -> None:
    store = MemoryPositions()
    with takeover(client, store, ConsumerSettings(start="latest")) as one:
        found = decided(one, client)

    assert [(each.bounds.partition, each.first) for each in found] == [(1, 4), (0, 4)]
    assert list(store.list("")) == []


def test_a_refused_start_of_any_partition_is_raised_by_the_decision(client: Client) -> None:
    with (
        takeover(client, MemoryPositions(), ConsumerSettings(start={0: 5})) as one,
        pytest.raises(PositionUnusable, match="partition 0"),
    ):
        decided(one, client)


def test_a_position_that_another_consumer_wrote_meanwhile_decides_the_start_again(client: Client) -> None:
    store = contended(client, others=2)
    with takeover(client, store, ConsumerSettings(start="latest")) as one:
        taken = one.take(decided(one, client)[1])

    assert taken.first == 2
    stored = store.read(str(KEY))
    assert stored is not None
    assert (SavedPosition.decode("", stored.document).offset, SavedPosition.decode("", stored.document).owner) == (
        *(2, "own"),
    )


@pytest.mark.parametrize(("on_misfit", "start"), [("earliest", 0), ("latest", 4)])
def test_a_start_that_the_policy_decided_is_logged_with_both_offsets(
    on_misfit: str, start: int, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryPositions()
    former = SavedPosition("of a deleted sink", 900, 1, "other", client.sinks.stats("orders").at)
    store.compare_and_write(str(KEY), former.encode(), None)

    with takeover(client, store, ConsumerSettings(on_misfit=on_misfit)) as one:
        [first] = [each.first for each in decided(one, client) if each.bounds.partition == 0]

    [logged] = [one.getMessage() for one in caplog.records if "policy" in one.getMessage()]
    assert first == start
    assert "partition=0 state='of another incarnation' position=900" in logged
    assert logged.endswith(f"on_misfit={on_misfit} start={start} earliest=0 end=4")


@pytest.mark.parametrize(("on_misfit", "kept", "first"), [("earliest", 1, 4), ("latest", 5, 5)])
def test_a_trimmed_position_is_kept_until_its_gap_is_handed_out_unless_the_start_is_the_end(
    on_misfit: str, kept: int, first: int, client: Client
) -> None:
    store = MemoryPositions()
    found = client.sinks.stats("orders")
    store.compare_and_write(str(KEY), SavedPosition(found.incarnation, 1, 1, "other", found.at).encode(), None)
    client.subscriptions.settle("orders", offsets={0: 4})
    client.publish("orders", [Record(b"x")], partition=0)

    with takeover(client, store, ConsumerSettings(on_misfit=on_misfit)) as one:
        [taken] = [one.take(each) for each in decided(one, client) if each.bounds.partition == 0]

    stored = store.read(str(KEY))
    assert stored is not None
    assert (SavedPosition.decode("", stored.document).offset, taken.first) == (kept, first)


def test_a_partition_that_others_take_over_again_and_again_is_given_up(client: Client) -> None:
    store = contended(client, others=TAKE_OVER_TRIES * 2)
    with takeover(client, store, ConsumerSettings(on_misfit="latest")) as one, pytest.raises(PositionFenced) as fenced:
        one.take(decided(one, client)[1])

    assert fenced.value.facts["partition"] == "0"
