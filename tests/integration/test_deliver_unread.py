"""A consumer that is connected and reads nothing: it costs the broker its credit, and no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import grpc
import pytest

from forebay.client import Client, Record
from forebay.client.testing import broker
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub

SINK = "orders"
RECORD_BYTES = 100_000
CREDIT_BYTES = 16 << 20
LOOK_S = 4.0
"""Forty deadlines."""


def redelivered(client: Client) -> int:
    return client.sinks.stats(SINK).subscriptions[0].partitions[0].redelivered


@pytest.mark.parametrize("ordering", ["STRICT", "RELAXED"])
def test_unread_deliveries_are_not_queued_again_at_every_deadline(ordering: str) -> None:
    done = threading.Event()

    def asks() -> Iterator[pb.DeliverRequest]:
        credit = pb.Credit(records=1_000, bytes=CREDIT_BYTES)
        yield pb.DeliverRequest(open=pb.DeliverOpen(sink=SINK, consumer_id="idle", credit=credit))
        done.wait()

    with broker() as running, running.client() as client, grpc.insecure_channel(running.endpoint) as channel:
        options = {"ack_deadline_s": 0.1, "retry_backoff_min_s": 0.01, "retry_backoff_max_s": 0.02}
        client.sinks.create(SINK, ordering=ordering, **options)  # type: ignore[arg-type]
        for _ in range(8):
            client.publish(SINK, [Record(b"x" * RECORD_BYTES)] * 2, partition=0)
        call = BufferServiceStub(channel).Deliver(asks())
        until, seen = time.monotonic() + LOOK_S, 0
        while time.monotonic() < until:
            seen = redelivered(client)
        call.cancel()
        done.set()

    assert 0 < seen <= 2 * CREDIT_BYTES // RECORD_BYTES
