"""Bounds in bytes and records, over the wire: what is kept, what goes, and what will never fit."""

from __future__ import annotations

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, DropReason, Gap, Overflow, Record, RecordTooLarge
from forebay.client.publish.pages import encode_columns
from tests.support.calls.eventually import values_of
from tests.support.calls.streams import PublishCall

SINK = "queue"
FIVE = 600
"""Bytes of a value: two of its pages are a limit's worth, which may not be as small as ten bytes."""
SIZE = len(encode_columns([b"x" * FIVE]).body)


def kept(client: Client) -> list[bytes]:
    steps = client.replay(SINK, partition=0, start=0, on_gap="yield")
    return [step.value for step in steps if not isinstance(step, Gap)]


def test_four_appends_of_half_a_limit_each_leave_the_two_newest(client: Client) -> None:
    """A limit of 10 bytes and four appends of 5: never over the limit, the right drops."""
    client.sinks.create(SINK, max_total_bytes=2 * SIZE, overflow=Overflow.DROP_OLDEST, buffer_page_size=1)
    sizes = []
    for number in range(4):
        client.publish(SINK, [Record(b"%d" % number * FIVE)])
        sizes.append(client.sinks.stats(SINK).bytes)
    stats = client.sinks.stats(SINK)

    assert sizes == [SIZE, 2 * SIZE, 2 * SIZE, 2 * SIZE]
    assert kept(client) == [b"2" * FIVE, b"3" * FIVE]
    assert stats.partitions[0].dropped == {DropReason.OVERFLOW: 2}
    assert stats.identity_ok


def test_several_limits_hold_at_once(client: Client) -> None:
    bounds = {"max_total_bytes": 4 * SIZE, "max_disk_cache": 3}
    client.sinks.create(SINK, overflow=Overflow.DROP_OLDEST, buffer_page_size=1, max_age_s=3_600.0)
    client.sinks.update(SINK, **bounds)  # type: ignore[arg-type]
    seen = []
    for number in range(20):
        large = number % 3 == 0
        client.publish(SINK, [Record(b"x" * (3 * FIVE if large else 10))])
        seen.append(client.sinks.stats(SINK))

    assert all(stats.records <= 3 and stats.bytes <= 4 * SIZE and stats.identity_ok for stats in seen)
    assert max(stats.records for stats in seen) == 3


def test_a_record_over_the_whole_limit_is_kept_alone_where_the_oldest_are_dropped(client: Client) -> None:
    """A record larger than the whole limit: kept alone."""
    client.sinks.create(SINK, max_total_bytes=1_024, overflow=Overflow.DROP_OLDEST, buffer_page_size=1)
    client.publish(SINK, [Record(b"small")])
    client.publish(SINK, [Record(b"L" * 5_000)])
    alone = kept(client)
    client.publish(SINK, [Record(b"next")])

    assert (alone, kept(client)) == ([b"L" * 5_000], [b"next"])
    assert client.sinks.stats(SINK).identity_ok


@pytest.mark.parametrize("through", ["publisher", "call"])
def test_a_record_over_the_whole_limit_is_refused_for_good_where_nothing_is_dropped(
    through: str, client: Client
) -> None:
    """Refused with a typed error, never a loop: the publisher gives up at once and sends the next record."""
    client.sinks.create(SINK, max_total_bytes=1_024, overflow=Overflow.REJECT, buffer_page_size=1)
    large = b"L" * 5_000
    if through == "call":
        with pytest.raises(RecordTooLarge) as refused:
            client.publish(SINK, [Record(large)])
        client.publish(SINK, [Record(b"next")])
    else:
        publisher = client.publisher(SINK, linger_ms=0, page_records=1)
        with pytest.raises(RecordTooLarge) as refused:
            publisher.send(large).result(20)
        publisher.send(b"next").result(20)
        with pytest.raises(RecordTooLarge):  # a close tells what failed since the last flush
            publisher.close()

    assert (refused.value.fact("bound"), refused.value.fact("size")) == (1_024, len(encode_columns([large]).body))
    assert values_of(client, SINK) == [b"next"]


def test_one_in_flight_and_a_limit_of_one_page(broker: BrokerServer, client: Client) -> None:
    """A in flight, B and C arrive: B is dropped and recorded at once, C stays, A is untouched."""
    client.sinks.create(SINK, max_disk_cache=1, overflow=Overflow.DROP_OLDEST, buffer_page_size=1)
    with PublishCall(broker.endpoint, SINK, "writer") as call:
        call.publish(0, [b"A"])
        in_flight = client.pull(SINK, wait_s=10.0)
        call.publish(1, [b"B"])
        call.publish(2, [b"C"])
        stats = client.sinks.stats(SINK)
        outcomes = [result.outcome for result in client.ack(SINK, in_flight)]
        [left] = client.pull(SINK, wait_s=10.0)

    assert [record.value for record in in_flight] == [b"A"]
    assert stats.partitions[0].dropped == {DropReason.OVERFLOW: 1}
    assert (outcomes, left.value) == (["OK"], b"C")
