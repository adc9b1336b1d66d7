"""A broker is killed while a set is leased, and right after it was settled: nothing is lost or undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.client import Client, Record, ReplayedRecord, ResendSet, SettleOutcome
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.stopping import StoppingLauncher

SINK = "orders"
HOLDER = "night-1"


def read(client: Client, found: ResendSet) -> list[bytes]:
    """The records of a set."""
    return [
        one.value
        for part in found.partitions
        for first, last in part.ranges
        for one in client.replay(SINK, partition=part.partition, start=first, end=last + 1)
        if isinstance(one, ReplayedRecord)
    ]


@pytest.mark.slow
def test_a_set_outlives_a_kill_by_its_ranges_and_what_was_settled_stays_so(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    store = in_memory / "store"
    with launcher.start(store, listen) as broker, Client(listen, settings=SETTINGS) as client:
        broker.ready()
        client.sinks.create(SINK, ordering="RELAXED")
        client.publish(SINK, [Record(b"%d" % number) for number in range(10)])
        pulled = client.pull(SINK)
        client.nack(SINK, [one for one in pulled if one.offset in (2, 3, 7)], delay_s=0.0)
        client.ack(SINK, [one for one in pulled if one.offset not in (2, 3, 7)])
        found = client.resends.lease(SINK, holder=HOLDER, duration_s=600)
        broker.kill()

    with launcher.start(store, listen) as broker, Client(listen, settings=SETTINGS) as client:
        broker.ready()
        again = client.resends.lease_again(SINK, holder=HOLDER, ranges=found.partitions)
        values = read(client, again)
        kept = client.pull(SINK)
        settled = client.resends.settle(SINK, holder=HOLDER, ranges=again.partitions)
        broker.kill()

    with launcher.start(store, listen) as broker, Client(listen, settings=SETTINGS) as client:
        broker.ready()
        stats = client.sinks.stats(SINK)
        repeated = client.resends.settle(SINK, holder=HOLDER, ranges=again.partitions)

    assert again.partitions == found.partitions
    assert (values, kept) == ([b"2", b"3", b"7"], [])
    assert {one.outcome for one in settled} == {SettleOutcome.OK}
    assert (stats.pending(), stats.identity_ok) == (0, True)
    assert {one.outcome for one in repeated} == {SettleOutcome.ALREADY_SETTLED}
