"""A broker is killed while a sink is purged, and right after a purge or a drop was answered."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from forebay.client import BrokerUnavailable, Client, ClientSettings, DropReason, RecordPlace, RecordState, RetryPolicy
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.stopping import StoppingLauncher

SINK = "orders"
ONCE = ClientSettings(retry=RetryPolicy(tries_max=1))
"""A call to a broker that was killed is not made again."""
PAGES = 1_500
"""A purge takes them in several slices."""


def fill(client: Client, pages: int) -> None:
    """Publish pages of one record."""
    client.sinks.create(SINK, buffer_page_size=1)
    with client.publisher(SINK, page_records=1, linger_ms=0) as publisher:
        publisher.send_many([b"x"] * pages).result(60)


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.02, 0.03, 0.05, 0.1])
def test_a_purge_that_is_killed_half_way_has_purged_the_oldest_pages_or_nothing(
    after_s: float, launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    store = in_memory / "store"
    with launcher.start(store, listen) as broker:
        broker.ready()
        with Client(listen, settings=ONCE) as client:
            fill(client, PAGES)
            kill = threading.Timer(after_s, broker.kill)
            kill.start()
            try:
                answered = client.sinks.purge(SINK)[0].records
            except BrokerUnavailable:
                answered = None
            kill.join()

    with launcher.start(store, listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            stats = client.sinks.stats(SINK)
            gaps = list(client.sinks.gaps(SINK))
            purged = sum(len(gap) for gap in gaps)
            left = [
                record.offset for record in client.pull(SINK, max_records=10_000, wait_s=5 if purged < PAGES else 0)
            ]
            rest = client.sinks.purge(SINK)[0].records

    assert stats.identity_ok
    assert (stats.records, stats.pending()) == (PAGES - purged, PAGES - purged)
    assert stats.partitions[0].dropped == ({DropReason.PURGED: purged} if purged else {})
    assert [(gap.first_offset, gap.last_offset) for gap in gaps] == ([(0, purged - 1)] if purged else [])
    assert left == list(range(purged, PAGES))
    assert rest == PAGES - purged
    assert answered in {None, purged}


@pytest.mark.slow
def test_an_answered_drop_and_an_answered_purge_survive_a_kill(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    store = in_memory / "store"
    with launcher.start(store, listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            fill(client, 10)
            with client.subscriber(SINK) as subscriber:
                taken = subscriber.take(10)
                assert taken is not None
                taken.drop("no such column", offset=taken.last_offset, wait=True)
                client.sinks.purge(SINK, until_offset=3)
                broker.kill()

    with launcher.start(store, listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            stats = client.sinks.stats(SINK)
            gaps = {(gap.first_offset, gap.last_offset, gap.subscription) for gap in client.sinks.gaps(SINK)}
            dropped = client.sinks.explain(SINK, taken.last_offset)
            purged = client.sinks.explain(SINK, 2)

    rejected = taken.last_offset
    assert stats.identity_ok
    assert gaps == {(0, 2, ""), (rejected, rejected, "default")}
    assert stats.partitions[0].dropped == {DropReason.PURGED: 3, DropReason.REJECTED_BY_TARGET: 1}
    assert (dropped.state, dropped.rejection is not None) == (RecordState.DROPPED, True)
    assert (purged.place, purged.state) == (RecordPlace.DROPPED, RecordState.DROPPED)
