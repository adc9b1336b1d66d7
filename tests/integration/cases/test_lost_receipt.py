"""A page is durable, its receipt is lost, the publisher gives up and continues with other data."""

from __future__ import annotations

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, DeliveryTimeout
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import stats_when, values_of
from tests.support.calls.streams import PublishCall
from tests.support.proxies.tcp import TcpProxy
from tests.support.refusals import failure


def test_a_page_that_was_given_up_and_the_next_one_are_both_stored_and_nothing_is_a_duplicate(
    broker: BrokerServer, client: Client
) -> None:
    """Page 5 is durable, its receipt lost; the publisher gives up and continues: both pages are stored."""
    client.sinks.create("orders")
    with TcpProxy(broker.endpoint) as proxy, Client(proxy.endpoint) as far:
        publisher = far.publisher("orders", linger_ms=0, delivery_timeout_s=1.0)
        for number in range(1, 5):
            publisher.send(b"page %d" % number).result(10)
        proxy.lose_answers()

        fifth = publisher.send(b"page 5")
        stats_when(client, "orders", lambda stats: stats.records == 5)
        with pytest.raises(DeliveryTimeout):
            fifth.result(10)
        proxy.cut()
        sixth = publisher.send(b"other data").result(10)
        publisher.abandon()

    assert values_of(client, "orders") == [b"page 1", b"page 2", b"page 3", b"page 4", b"page 5", b"other data"]
    assert not sixth.duplicate
    assert sixth.first_offset == 5


def test_a_number_whose_page_is_durable_is_refused_for_other_data_and_answered_for_the_same(
    broker: BrokerServer, client: Client
) -> None:
    """On the wire, the number of the lost receipt never identifies other data."""
    client.sinks.create("orders")
    with PublishCall(broker.endpoint, "orders", "writer") as first:
        epoch = first.opened.writer_epoch
        first.publish(0, [b"page 0"])
        first.send(1, [b"page 1"])
        stats_when(client, "orders", lambda stats: stats.records == 2)

    with PublishCall(broker.endpoint, "orders", "writer", epoch=epoch) as second:
        expected = dict(second.opened.next_sequences)
        with failure(Reason.SEQUENCE_CONFLICT):
            second.publish(1, [b"other data"])
        same = second.publish(1, [b"page 1"])

    assert expected == {0: 2}
    assert (same.first_offset, same.duplicate) == (1, True)
    assert values_of(client, "orders") == [b"page 0", b"page 1"]
