"""A sink that is full with one page in flight."""

from __future__ import annotations

from forebay.client import Client, DropReason, Gap, Overflow, RecordPlace, RecordState, SettleOutcome


def test_the_page_in_flight_and_the_newest_page_stay_and_the_page_between_them_is_dropped_at_once(
    client: Client,
) -> None:
    """A in flight, the limit is one page; B, then C arrive: B is dropped and recorded, C stays, A is untouched."""
    client.sinks.create("orders", overflow=Overflow.DROP_OLDEST, max_disk_cache=10)
    publisher = client.publisher("orders", linger_ms=0)
    publisher.send_many([b"A"] * 10).result(10)
    with client.subscriber("orders", credit_records=1) as subscriber:
        first = subscriber.take(10)
        assert first is not None
        publisher.send_many([b"B"] * 10).result(10)
        publisher.send_many([b"C"] * 10).result(10)
        places = [client.sinks.explain("orders", offset) for offset in (5, 15, 25)]
        stats = client.sinks.stats("orders")
        read = [
            "gap" if isinstance(one, Gap) else one.value.decode()
            for one in client.replay("orders", partition=0, start=0, on_gap="yield")
        ]
        settled = first.ack(wait=True)
    publisher.close()

    assert [(one.place, one.state) for one in places] == [
        (RecordPlace.RECENT, RecordState.IN_FLIGHT),
        (RecordPlace.DROPPED, RecordState.DROPPED),
        (RecordPlace.RECENT, RecordState.PENDING),
    ]
    assert stats.partitions[0].dropped == {DropReason.OVERFLOW: 10}
    assert stats.identity_ok
    assert {result.outcome for result in settled} == {SettleOutcome.OK}
    assert read == ["A"] * 10 + ["gap"] + ["C"] * 10
