"""STRICT order, many records sent ahead, one of them nacked."""

from __future__ import annotations

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client
from tests.support.calls.streams import DeliverCall, offsets

RECORDS = 100


def fill(client: Client, *, pages: int) -> None:
    """Publish 100 records, in so many pages."""
    client.sinks.create("orders", retry_backoff_min_s=0.001, retry_backoff_max_s=0.001)
    size = RECORDS // pages
    with client.publisher("orders", linger_ms=0, page_records=size) as publisher:
        for first in range(0, RECORDS, size):
            publisher.send_many([b"%d" % number for number in range(first, first + size)]).result(10)


@pytest.mark.parametrize("pages", [1, 10, 100])
@pytest.mark.parametrize("nacked", [0, 37, 99])
def test_the_target_sees_the_nacked_record_again_before_any_record_after_it(
    client: Client, pages: int, nacked: int
) -> None:
    """100 sent ahead, k is nacked: k, k+1, ... come in order, no k+1 before the second k."""
    fill(client, pages=pages)
    seen: list[int] = []
    failed = False

    with client.subscriber("orders", credit_records=RECORDS) as subscriber:
        while len(seen) < RECORDS + 1:
            delivery = subscriber.take(10)
            assert delivery is not None, f"nothing came after {seen[-3:]}"
            for record in delivery:
                seen.append(record.offset)
                if record.offset == nacked and not failed:
                    failed = True
                    delivery.nack_from(nacked, delay_s=0.0)
                else:
                    delivery.ack(record.offset)

    assert seen == [*range(nacked + 1), *range(nacked, RECORDS)]


def test_on_the_wire_nothing_of_the_new_revision_comes_before_the_nacked_record(
    broker: BrokerServer, client: Client
) -> None:
    """The delivery after the nack begins with k, has a higher revision, and states the attempts of k."""
    fill(client, pages=10)

    with DeliverCall(broker.endpoint, "orders") as call:
        ahead = call.delivered(RECORDS)
        call.nack(ahead[0].owner_epoch, ahead[0].revision, 37, 37)
        [probe] = call.delivered(3)
        call.ack(probe.owner_epoch, probe.revision, 37, 39)
        again = [probe, *call.delivered(RECORDS - 40)]

    assert [offset for one in ahead for offset in offsets(one)] == list(range(RECORDS))
    assert [offset for one in again for offset in offsets(one)] == list(range(37, RECORDS))
    assert {one.revision for one in again} == {ahead[0].revision + 1}
    assert [(one.offset, one.attempt) for one in again[0].attempts] == [(37, 1)]
