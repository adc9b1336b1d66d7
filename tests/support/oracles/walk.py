"""Minimal life cycle of a record in a broker, reported to an oracle: publish, deliver, ack, trim.

It continues through a kill, as a client does, so whatever is killed at whichever step, the final state is the same.
"""

from __future__ import annotations

import time
from typing import Final

from forebay.client import BrokerUnavailable, Client, Delivery, Record, SinkStats
from tests.support.campaigns.publishers import SETTINGS
from tests.support.oracles.oracle import Oracle
from tests.support.oracles.records import identity, identity_of, value_of

SINK: Final = "orders"
SMALL, BULK = range(1, 41), range(1, 46)
BULK_BODY_BYTES: Final = 100 << 10
"""Times the records of ``BULK`` it is enough for a file of its own."""

ENDS_S: Final = 30.0


def walk(endpoint: str, oracle: Oracle) -> None:
    """Publish through the log and as a file, consume all of it, and wait until it is trimmed."""
    with Client(endpoint, settings=SETTINGS) as client:
        client.sinks.create(SINK, exist_ok=True, retry_backoff_min_s=0.01, retry_backoff_max_s=0.05)
        with client.publisher(SINK, writer_id="writer", linger_ms=0) as publisher:
            for half in (SMALL[:20], SMALL[20:]):
                records = [identity(1, number) for number in half]
                [receipt] = publisher.send_many([value_of(record, 200) for record in records]).result(ENDS_S)
                assert receipt.first_offset is not None
                oracle.receipt(0, receipt.first_offset, records)
                if half[0] == SMALL[0]:
                    publish_bulk(client, oracle)
        consume(client, oracle)


def publish_bulk(client: Client, oracle: Oracle) -> None:
    """Publish what makes a file; where its fate is not known it is not sent again."""
    records = [identity(2, number) for number in BULK]
    try:
        receipts = client.publish(SINK, [Record(value_of(record, BULK_BODY_BYTES)) for record in records], partition=0)
    except BrokerUnavailable:
        return
    at = 0
    for receipt in receipts:
        assert receipt.first_offset is not None
        assert receipt.last_offset is not None
        size = receipt.last_offset - receipt.first_offset + 1
        oracle.receipt(0, receipt.first_offset, records[at : at + size])
        at += size
    assert at == len(records)


def consume(client: Client, oracle: Oracle) -> SinkStats:
    """Take and ack until nothing is stored any more; returns the last statistics."""
    until = time.monotonic() + ENDS_S
    with client.subscriber(SINK) as subscriber:
        while True:
            delivery = subscriber.take(0.05)
            if delivery is not None:
                answer(delivery, oracle)
                continue
            promised = oracle.promises()
            stats = client.sinks.stats(SINK)
            oracle.check(stats, promised)
            if stats.records == 0 and oracle.untold(stats) == 0:
                return stats
            assert time.monotonic() < until, f"not consumed within {ENDS_S:g} s: {stats}"


def answer(delivery: Delivery, oracle: Oracle) -> None:
    """Report a delivery, then ack it, a small page in two parts, the later one first."""
    if delivery.gap is not None:
        oracle.gap(delivery.gap)
        return
    records = list(delivery)
    if not records:
        return  # it was void before it was read
    owner_epoch = records[0].owner_epoch
    given = [(record.offset, identity_of(record.value) or 0) for record in records]
    oracle.delivered(delivery.partition, owner_epoch, given)
    oracle.acking(delivery.partition, delivery.ranges)
    first, last = given[0][0], given[-1][0]
    middle = (first + last) // 2 if len(given) == len(SMALL) // 2 else first - 1
    for low, high in ((middle + 1, last), (first, middle)):
        if low <= high:
            oracle.acked(owner_epoch, delivery.ack(low, high, wait=True))
