"""A subscription is moved while deliveries are in flight."""

from __future__ import annotations

import asyncio

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client
from tests.support.brokers.running import move
from tests.support.calls.streams import DeliverCall, offsets, outcomes


def seek(broker: BrokerServer, offset: int) -> None:
    """Move the subscription ``default`` of sink ``orders``, durably."""
    serving = broker.serving
    assert serving is not None

    async def seek_on_loop() -> None:
        await move(serving.broker.sink("orders").subscription("default"), 0, offset)

    assert broker.loop is not None
    asyncio.run_coroutine_threadsafe(seek_on_loop(), broker.loop).result(10)


@pytest.mark.parametrize("offset", [0, 40, 100])
def test_acks_of_what_was_in_flight_when_the_subscription_was_moved_settle_nothing(
    broker: BrokerServer, client: Client, offset: int
) -> None:
    """A seek back, into the middle, or to the end: late acks are STALE, and the new account is untouched."""
    client.sinks.create("orders")
    with client.publisher("orders", page_records=25) as publisher:
        publisher.send_many([b"%d" % number for number in range(100)])

    with DeliverCall(broker.endpoint, "orders") as call:
        ahead = call.delivered(100)
        place = ahead[0].owner_epoch, ahead[0].revision
        seek(broker, offset)
        late = call.ack(*place, 0, 99)
        stats = client.sinks.stats("orders")
        again = call.delivered(100 - offset)

    account = stats.subscriptions[0].partitions[0]
    assert outcomes(late) == [(0, 99, "STALE")]
    assert (account.start_offset, account.acked, account.pending) == (offset, 0, 100 - offset)
    assert stats.identity_ok
    assert [found for one in again for found in offsets(one)] == list(range(offset, 100))


def test_a_late_nack_after_a_seek_is_no_failure(broker: BrokerServer, client: Client) -> None:
    """The same for a nack: nothing backs off, no attempt is counted."""
    client.sinks.create("orders")
    with client.publisher("orders") as publisher:
        publisher.send_many([b"x"] * 10)

    with DeliverCall(broker.endpoint, "orders") as call:
        [first] = call.delivered(10)
        seek(broker, 5)
        late = call.nack(first.owner_epoch, first.revision, 7, 7)
        [again] = call.delivered(5)

    assert outcomes(late) == [(7, 7, "STALE")]
    assert offsets(again) == [5, 6, 7, 8, 9]
    assert not again.attempts
