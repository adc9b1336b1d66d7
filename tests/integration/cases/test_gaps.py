"""Records between two gaps."""

from __future__ import annotations

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.records.pages.page import SMALL_PAGE
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import Client, DropReason, Gap, Overflow, Subscriber
from tests.support.calls.eventually import stats_when


def read(client: Client) -> list[tuple[str, int, int]]:
    """Gaps and runs of records of a replay from the beginning, with first and last offset."""
    met: list[tuple[str, int, int]] = []
    for found in client.replay("orders", partition=0, start=0, on_gap="yield"):
        if isinstance(found, Gap):
            met.append((f"gap {found.reason}", found.first_offset, found.last_offset))
        elif met and met[-1][0] == "records" and met[-1][2] == found.offset - 1:
            met[-1] = ("records", met[-1][1], found.offset)
        else:
            met.append(("records", found.offset, found.offset))
    return met


def consume(subscriber: Subscriber, until: int) -> list[tuple[str, int, int]]:
    """Deliveries of a consumer up to an offset, all acked."""
    met: list[tuple[str, int, int]] = []
    while not met or met[-1][2] < until:
        delivery = subscriber.take(10)
        assert delivery is not None, f"nothing came after {met}"
        if delivery.gap is not None:
            met.append((f"gap {delivery.gap.reason}", delivery.first_offset, delivery.last_offset))
        elif met and met[-1][0] == "records" and met[-1][2] == delivery.first_offset - 1:
            met[-1] = ("records", met[-1][1], delivery.last_offset)
        else:
            met.append(("records", delivery.first_offset, delivery.last_offset))
        delivery.ack(wait=True)
    return met


def test_records_in_flight_between_two_overflows_are_between_two_gaps(client: Client) -> None:
    """Gaps 0-9 and 20-29 with live 10-19 between: every reader gets gap, records, gap."""
    client.sinks.create("orders", overflow=Overflow.DROP_OLDEST, max_disk_cache=20)
    publisher = client.publisher("orders", linger_ms=0)

    def publish() -> None:
        publisher.send_many([b"x"] * 10).result(10)

    for _ in range(3):
        publish()
    with client.subscriber("orders", credit_records=10) as first:
        gap, middle = first.take(10), first.take(10)
        assert gap is not None
        assert gap.gap is not None
        assert middle is not None
        publish()
        replayed = read(client)
    stats_when(client, "orders", lambda stats: stats.subscriptions[0].consumers == 0)
    with client.subscriber("orders") as second:
        consumed = consume(second, 39)
    stats = client.sinks.stats("orders")
    publisher.close()

    expected = [("gap OVERFLOW", 0, 9), ("records", 10, 19), ("gap OVERFLOW", 20, 29), ("records", 30, 39)]
    assert (gap.first_offset, gap.last_offset) == (0, 9)
    assert (middle.first_offset, middle.last_offset) == (10, 19)
    assert replayed == expected
    assert consumed == expected
    assert stats.identity_ok
    assert stats.partitions[0].dropped == {DropReason.OVERFLOW: 20}
    assert stats.subscriptions[0].partitions[0].dropped == 20
    assert stats.subscriptions[0].partitions[0].acked == 20


def test_a_gap_on_its_way_to_a_consumer_that_leaves_is_reported_to_the_next_one(client: Client) -> None:
    """An ack of what came before the gap does not prove that the gap was seen."""
    client.sinks.create("orders", overflow=Overflow.DROP_OLDEST, max_disk_cache=20)
    publisher = client.publisher("orders", linger_ms=0)
    publisher.send_many([b"x"] * 10).result(10)
    with client.subscriber("orders", credit_records=11) as first:
        head = first.take(10)
        assert head is not None
        publisher.send_many([b"x"] * 10).result(10)
        stats_when(client, "orders", lambda stats: stats.subscriptions[0].partitions[0].in_flight == 20)
        second_page = first.take(10)
        assert second_page is not None
        for _ in range(2):
            publisher.send_many([b"x"] * 10).result(10)
        stats_when(client, "orders", lambda stats: stats.partitions[0].dropped == {DropReason.OVERFLOW: 10})
        second_page.ack(wait=True)
        head.ack(wait=True)

    with client.subscriber("orders") as second:
        consumed = consume(second, 39)
    publisher.close()

    assert consumed[0] == ("gap OVERFLOW", 20, 29)
    assert consumed[-1][2] == 39


def test_damaged_pages_are_gaps_between_which_the_others_are_delivered() -> None:
    """Damaged pages are gaps: pages 0-9 and 20-29 cannot be read, 10-19 and 30-39 are delivered."""
    store = MemoryStore()
    with BrokerServer.in_memory(store, tail_bytes=0) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        publisher = client.publisher("orders", linger_ms=0)
        for _ in range(4):
            publisher.send_many([b"x"] * 10).result(10)
        publisher.close()
        pages = [key for key, _ in store.scan(Family.SMALL, *SMALL_PAGE.under(1), 10)]
        for number in (0, 2):
            store.damage(Family.SMALL, pages[number])

        with client.subscriber("orders") as subscriber:
            consumed = consume(subscriber, 39)
        stats = client.sinks.stats("orders")

    assert consumed == [("gap CORRUPT", 0, 9), ("records", 10, 19), ("gap CORRUPT", 20, 29), ("records", 30, 39)]
    assert stats.identity_ok
    assert stats.partitions[0].dropped == {DropReason.CORRUPT: 20}
