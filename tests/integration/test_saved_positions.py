"""Saved positions in a broker: over restarts, deleted sinks, damage, and with rights."""

from __future__ import annotations

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.records.position import POSITION
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import Client, PositionDamaged, PositionUnusable, Record
from forebay.client.positions.store import PositionStore, open_store

KEY = "default/billing/orders/0"
WAIT_S = 30.0


def store_of(client: Client) -> PositionStore:
    return open_store("broker:", channels=client._channels)


def read_all(client: Client) -> list[int]:
    with client.consumer("orders", "billing", follow=False) as consumer:
        return [offset for batch in consumer for offset in range(batch.first_offset, batch.last_offset + 1)]


def test_a_consumer_resumes_after_a_restart_of_the_broker() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as broker, Client(broker.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(value=b"1")] * 3)
        assert read_all(client) == [0, 1, 2]

    with BrokerServer.in_memory(store.reopen()) as broker, Client(broker.endpoint) as client:
        client.publish("orders", [Record(value=b"1")])
        assert read_all(client) == [3]


def test_a_position_outlives_its_sink_so_that_a_recreated_sink_is_detected(client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(value=b"1")])
    read_all(client)
    client.sinks.delete("orders", force=True)
    client.sinks.create("orders")

    with pytest.raises(PositionUnusable, match="former sink"):
        read_all(client)


def test_positions_are_listed_over_many_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay.client.admin.positions.PAGE_SIZE", 2)
    client.sinks.create("orders")
    store = store_of(client)
    keys = [f"default/billing/orders/{number}" for number in range(5)]
    for key in keys:
        store.compare_and_write(key, b"1", None)

    assert list(store.list("default/")) == keys
    assert list(store.list("other/")) == []


def test_a_damaged_position_is_reported_and_stays_until_it_is_deleted() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as broker, Client(broker.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(value=b"1")])
        read_all(client)
    damaged = store.reopen()
    damaged.write([Put(Family.META, POSITION.key(KEY), b"ten bytes.")])

    with BrokerServer.in_memory(damaged) as broker, Client(broker.endpoint) as client:
        with pytest.raises(PositionDamaged, match=KEY):
            read_all(client)
        assert list(store_of(client).list("default/")) == [KEY]
        store_of(client).delete(KEY)
        assert list(store_of(client).list("default/")) == []
        assert read_all(client) == [0]
