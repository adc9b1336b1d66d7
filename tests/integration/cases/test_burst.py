"""A burst that is larger than the sink: the publisher waits, and all of it arrives."""

from __future__ import annotations

from threading import Event, Thread

from forebay.client import Client, Overflow
from tests.support.calls.eventually import stats_when

SINK = "orders"


def test_a_burst_of_fifty_into_a_bound_of_ten_waits_for_a_slow_target_and_arrives(client: Client) -> None:
    """A burst of 50 into a bound of 10 with REJECT and a slow target: the publisher waits, 50 arrive."""
    client.sinks.create(SINK, max_disk_cache=10, overflow=Overflow.REJECT, buffer_page_size=1)
    arrived: list[bytes] = []
    go = Event()

    def slow_target() -> None:
        go.wait(20)
        while len(arrived) < 50:
            for record in client.pull(SINK, max_records=3, wait_s=5.0):
                arrived.append(record.value)
                client.ack(SINK, [record])

    target = Thread(target=slow_target, name="slow-target")
    target.start()
    with client.publisher(SINK, linger_ms=0, page_records=1) as publisher:
        sent = [publisher.send(b"%d" % number) for number in range(50)]
        full = stats_when(client, SINK, lambda stats: stats.records == 10)
        waiting = sum(not one.done() for one in sent)
        go.set()
        receipts = [one.result(30) for one in sent]
    target.join(30)

    assert full.records == 10
    assert waiting >= 40
    assert arrived == [b"%d" % number for number in range(50)]
    assert [receipt.first_offset for receipt in receipts] == list(range(50))
    assert client.sinks.stats(SINK).partitions[0].dropped == {}
