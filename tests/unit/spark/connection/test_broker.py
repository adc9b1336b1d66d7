"""A query that has found its sink continues while the broker is unreachable; any other one fails."""

from __future__ import annotations

import pytest

from forebay.client import testing
from forebay.client.testing import TestBroker
from forebay.spark.connection.broker import SinkCache
from forebay.spark.connection.cache import FRESH_S
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import WriteOptions, write_options
from tests.support.proxies.tcp import TcpProxy


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def options(broker: TestBroker, sink: str = "orders") -> WriteOptions:
    return write_options({"endpoint": broker.endpoint, "sink": sink, "connect_timeout_s": "0.3"}, {})


def test_facts_of_a_sink_that_were_just_looked_up_come_from_the_cache() -> None:
    cache = SinkCache(Clock())
    with testing.broker() as broker:
        with broker.client() as client:
            client.sinks.create("orders", partitions=5)
        wanted = options(broker)
        facts = cache.look_up(wanted)

    assert facts.partitions == 5
    assert cache.look_up(wanted) is facts


def test_an_older_answer_is_used_while_the_broker_is_unreachable() -> None:
    clock = Clock()
    cache = SinkCache(clock)
    with testing.broker() as broker:
        with broker.client() as client:
            client.sinks.create("orders")
        wanted = options(broker)
        facts = cache.look_up(wanted)
    clock.now_s += FRESH_S

    assert cache.look_up(wanted) is facts


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_an_older_answer_is_used_while_the_broker_does_not_answer(broker: TestBroker, delivery: str) -> None:
    clock = Clock()
    cache = SinkCache(clock)
    with broker.client() as client:
        client.sinks.create("orders")
    with TcpProxy(broker.endpoint) as proxy:
        given = {"endpoint": proxy.endpoint, "sink": "orders", "connect_timeout_s": "5", "delivery": delivery}
        wanted = write_options(given, {})
        facts = cache.look_up(wanted)
        proxy.hold()
        clock.now_s += FRESH_S

        assert cache.look_up(wanted) is facts
        clock.now_s -= FRESH_S
        assert cache.look_up(wanted) is facts


def test_a_sink_that_was_deleted_is_noticed(broker: TestBroker) -> None:
    clock = Clock()
    cache = SinkCache(clock)
    with broker.client() as client:
        client.sinks.create("orders")
        cache.look_up(options(broker))
        client.sinks.delete("orders")
    clock.now_s += FRESH_S

    with pytest.raises(ForebaySparkError, match="SINK_NOT_FOUND"):
        cache.look_up(options(broker))


def test_a_recreated_sink_is_looked_up_again_where_no_ticket_would_tell(broker: TestBroker) -> None:
    cache = SinkCache(Clock())
    given = {"endpoint": broker.endpoint, "sink": "orders", "delivery": "at_least_once"}
    wanted = write_options(given, {}, is_stream=True)
    with broker.client() as client:
        former = client.sinks.create("orders", partitions=2)
        assert cache.look_up(wanted).incarnation == former.incarnation
        client.sinks.delete("orders")
        made = client.sinks.create("orders", partitions=3)

    facts = cache.look_up(wanted)

    assert (facts.incarnation, facts.partitions) == (made.incarnation, 3)


def test_a_broker_that_was_never_seen_is_an_error() -> None:
    with testing.broker() as broker:
        wanted = options(broker)

    with pytest.raises(ForebaySparkError, match="forebay serve"):
        SinkCache(Clock()).look_up(wanted)
