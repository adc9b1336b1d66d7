"""A schema never changes, so a reader asks for each version once."""

from __future__ import annotations

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.records.sinks.schema import SCHEMA
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import Client, ClientSettings, RetryPolicy, SchemaNotFound, SinkReplaced, testing
from forebay.client.admin import schemas
from forebay.client.admin.schemas import SchemaCache
from forebay.client.errors import BrokerUnavailable
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import blocked

IMPATIENT = ClientSettings(call_timeout_s=1.0, retry=RetryPolicy(tries_max=1))


def test_a_version_that_was_met_is_not_asked_for_again() -> None:
    with testing.broker() as broker:
        with broker.client() as client:
            made = client.sinks.create("orders")
            client.schemas.register("orders", b"one", previous=0)
        channels = Channels((broker.endpoint,), IMPATIENT)
        schema_of = blocked(SchemaCache(channels, "orders").source(made.incarnation, ()))
        first = schema_of(1)
        with pytest.raises(SchemaNotFound):
            schema_of(2)

    assert schema_of(1) is first
    with pytest.raises(BrokerUnavailable):
        schema_of(2)
    blocked(channels.close())


def test_a_sink_that_was_recreated_is_asked_again() -> None:
    with testing.broker() as broker, broker.client() as client:
        channels = Channels((broker.endpoint,), IMPATIENT)
        cache = SchemaCache(channels, "orders")
        found = []
        for schema in (b"first", b"second"):
            made = client.sinks.create("orders")
            client.schemas.register("orders", schema, previous=0)
            found.append(blocked(cache.source(made.incarnation, ()))(1).arrow_schema)
            client.sinks.delete("orders")
        blocked(channels.close())

    assert found == [b"first", b"second"]


def test_a_version_of_a_former_sink_is_neither_read_nor_registered_as_one_of_its_successor() -> None:
    with testing.broker() as broker, broker.client() as client:
        client.sinks.create("orders")
        client.schemas.register("orders", b"former", previous=0)
        former = client.schemas.get("orders")
        client.sinks.delete("orders")
        client.sinks.create("orders")
        client.schemas.register("orders", b"other", previous=0)

        with pytest.raises(SinkReplaced) as refused:
            client.schemas.register("orders", b"more", previous=former.version, incarnation=former.incarnation)
        with pytest.raises(SinkReplaced):
            client.schemas.get("orders", former.version, incarnation=former.incarnation)
        with pytest.raises(SinkReplaced):
            client.schemas.latest("orders", incarnation=former.incarnation)

        assert refused.value.named == former.incarnation
        assert [one.version for one in client.schemas.list("orders")] == [1]


def test_the_latest_version_that_is_left_is_found_after_those_that_are_lost() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        assert client.schemas.latest("orders") == (0, None)
        for version in range(3):
            client.schemas.register("orders", b"%d" % version, previous=version)
    again = store.reopen()
    again.write([Put(Family.META, SCHEMA.key(1, version), b"damaged") for version in (1, 3)])

    with BrokerServer.in_memory(again) as server, Client(server.endpoint) as client:
        highest, found = client.schemas.latest("orders")

        assert (highest, found) == (3, client.schemas.get("orders", 2))
        assert [one.registered_at is None for one in client.schemas.list("orders")] == [True, False, True]
        assert client.schemas.register("orders", b"new", previous=3) == 4


def test_a_list_that_comes_in_parts_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "PAGE_SIZE", 2)
    with testing.broker() as broker, broker.client() as client:
        client.sinks.create("orders")
        for version in range(5):
            client.schemas.register("orders", b"%d" % version, previous=version)

        assert [one.version for one in client.schemas.list("orders")] == [1, 2, 3, 4, 5]
