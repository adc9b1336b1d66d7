"""A damaged log takes the broker's own counts back, and the files that were ingested meanwhile are still there."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.client import Client, Record
from tests.fault.test_damage import flip
from tests.support.calls.eventually import values_of
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.stopping import StoppingLauncher

SINK = "orders"
MIB = 1 << 20


@pytest.mark.slow
def test_pages_after_a_log_that_was_lost_as_a_whole_do_not_share_the_numbers_of_those_before(
    launcher: StoppingLauncher, listen: str, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    with launcher.start(store, listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(SINK)
            for _ in range(2):
                client.publish(SINK, [Record(b"lost" * (MIB // 4))] * 6, partition=0)
        broker.kill()
    [log] = (store / "db").glob("*.log")
    flip(log, 0)

    with launcher.start(store, listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(SINK)
            client.publish(SINK, [Record(b"new" * (MIB // 4))] * 6, partition=0)
            saved = values_of(client, "recovered-1")  # the log had its name, and the files have its pages
        assert again.terminate() == 0
    with launcher.start(store, listen) as last:
        last.ready()
        with Client(listen, settings=SETTINGS) as client:
            found = values_of(client, SINK)

    assert found == [b"new" * (MIB // 4)] * 6
    assert saved == [b"lost" * (MIB // 4)] * 12
