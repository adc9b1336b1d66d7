"""A consumer that needs longer for what it was sent than the ack deadline, and is never late."""

from __future__ import annotations

import threading

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.clock import FakeClock
from forebay.client import Client
from tests.support.calls.eventually import stats_when
from tests.support.calls.streams import DeliverCall, offsets

RECORDS = 300
RECORD_S = 0.01
DEADLINE_S = 0.9
"""As 100 ms a record, 1,000 records and 30 s are to each other: all of it takes 3.3 deadlines."""


@pytest.mark.parametrize("ack_each", [True, False], ids=["acked_per_record", "acked_once_at_the_end"])
def test_nothing_expires_and_no_attempt_is_counted_while_a_slow_consumer_is_at_work(
    client: Client, ack_each: bool
) -> None:
    """All is sent ahead, a record takes its time; acked per record, or once at the end: nothing expires."""
    client.sinks.create("orders", ack_deadline_s=DEADLINE_S)
    with client.publisher("orders", page_records=50) as publisher:
        publisher.send_many([b"%d" % number for number in range(RECORDS)])
    work = threading.Event()
    seen: list[tuple[int, int]] = []
    kept = []

    with client.subscriber("orders", credit_records=RECORDS) as subscriber:
        while len(seen) < RECORDS:
            delivery = subscriber.take(10)
            assert delivery is not None
            kept.append(delivery)
            for record in delivery:
                work.wait(RECORD_S)
                seen.append((record.offset, record.attempt))
                if ack_each:
                    delivery.ack(record.offset)
        results = [result for delivery in kept for result in delivery.ack(wait=True)]
        stats = stats_when(client, "orders", lambda stats: stats.pending() == 0)

    account = stats.subscriptions[0].partitions[0]
    assert seen == [(offset, 0) for offset in range(RECORDS)]
    assert {result.outcome.value for result in results} <= {"OK", "ALREADY_SETTLED"}
    assert (account.acked, account.pending, account.redelivered) == (RECORDS, 0, 0)


def test_each_ack_gives_the_record_after_it_a_whole_deadline() -> None:
    """On the broker's clock: 1,000 records of 100 ms under a deadline of 30 s, acked per record."""
    clock = FakeClock()
    with BrokerServer.in_memory(clock=clock) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        with client.publisher("orders") as publisher:
            publisher.send_many([b"x"] * 1_000)

        with DeliverCall(server.endpoint, "orders", records=1_000) as call:
            ahead = call.delivered(1_000)
            for one in ahead:
                for offset in offsets(one):
                    clock.now += 0.1
                    [result] = call.ack(one.owner_epoch, one.revision, offset, offset)
                    assert result.outcome == 1
        account = client.sinks.stats("orders").subscriptions[0].partitions[0]

    assert (account.acked, account.redelivered) == (1_000, 0)
    assert not [response for response in call.told if response.HasField("revoked")]
