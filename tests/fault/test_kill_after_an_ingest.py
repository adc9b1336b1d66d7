"""The broker is killed between an ingest and its batch; the next one removes the orphans and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.client import BrokerUnavailable, Client, Record
from tests.support.calls.eventually import values_of
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.stopping import StoppingLauncher, let_go, wait_held
from tests.support.processes.stops import Stop

SINK = "orders"
MIB = 1 << 20


def bulk(letter: bytes) -> list[bytes]:
    """Values that become a file of their own."""
    return [letter * MIB for _ in range(6)]


def publish(client: Client, values: list[bytes]) -> None:
    """Publish values together."""
    client.publish(SINK, [Record(value) for value in values], partition=0)


def files(directory: Path) -> set[str]:
    """The names of the bulk files."""
    return {path.name for path in (directory / "bulk").iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 2])
def test_pages_after_a_kill_between_an_ingest_and_its_batch_are_whole_when_the_orphans_are_gone(
    kills: int, launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    """Kill between an ingest and its batch, restart, new pages, orphan removal: the new pages are whole."""
    store = in_memory / "store"
    for _ in range(kills):
        broker = launcher.start_to(Stop("ingest", "after"), store, listen)
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(SINK, exist_ok=True)
            with pytest.raises(BrokerUnavailable):
                publish(client, bulk(b"o"))
        assert broker.wait() == -9
    orphans = files(store)

    with launcher.start_to(Stop("compact", "after", hold=True), store, listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            sent = [*bulk(b"a"), b"small", *bulk(b"b")]
            publish(client, sent[:6])
            publish(client, sent[6:7])
            publish(client, sent[7:])
            wait_held(store)
            let_go(store)
            publish(client, bulk(b"c"))
            found = values_of(client, SINK)
        assert again.terminate() == 0
    left = files(store)
    with launcher.start(store, listen) as last:
        last.ready()
        with Client(listen, settings=SETTINGS) as client:
            found_from_disk = values_of(client, SINK)

    assert len(orphans) == kills
    assert not orphans & left
    assert len(left) == 3
    assert found == found_from_disk == [*sent, *bulk(b"c")]
