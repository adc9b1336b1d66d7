"""A schema never changes, so a reader asks for each version once."""

from __future__ import annotations

import pytest

from holdfast.client import ClientSettings, RetryPolicy, SchemaNotFound, testing
from holdfast.client.channel import Channels
from holdfast.client.errors import BrokerUnavailable
from holdfast.client.schemas import SchemaCache

IMPATIENT = ClientSettings(call_timeout_s=1.0, retry=RetryPolicy(tries_max=1))


def test_a_version_that_was_met_is_not_asked_for_again() -> None:
    with testing.broker() as broker:
        with broker.client() as client:
            client.sinks.create("orders")
            client.schemas.register("orders", b"one", previous=0)
        channels = Channels((broker.endpoint,), IMPATIENT)
        schema_of = SchemaCache(channels, "orders").source("incarnation")
        first = schema_of(1)
        with pytest.raises(SchemaNotFound):
            schema_of(2)

    assert schema_of(1) is first
    with pytest.raises(BrokerUnavailable):
        schema_of(2)
    channels.close()


def test_a_sink_that_was_made_anew_is_asked_again() -> None:
    with testing.broker() as broker, broker.client() as client:
        channels = Channels((broker.endpoint,), IMPATIENT)
        cache = SchemaCache(channels, "orders")
        found = []
        for incarnation in (b"first", b"second"):
            client.sinks.create("orders")
            client.schemas.register("orders", incarnation, previous=0)
            found.append(cache.source(incarnation.decode())(1).arrow_schema)
            client.sinks.delete("orders")
        channels.close()

    assert found == [b"first", b"second"]
