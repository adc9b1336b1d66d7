"""Disk space of settled records is reclaimed, also if the broker is killed meanwhile."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from forebay.client import Client, Record
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.broker import serve_command
from tests.support.processes.stopping import StoppingLauncher
from tests.support.processes.stops import Action, Stop

SINK = "orders"
MIB = 1 << 20
BLOCK_BYTES = 512
BACK_S = 20.0
LOOK_S = 0.05


def used(directory: Path) -> int:
    """Bytes that the files of a directory take on the disk, as ``du`` counts them."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * BLOCK_BYTES
            except FileNotFoundError:
                continue  # it has just gone
    return total


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Poll, as there is no notification when a file is removed."""
    until = time.monotonic() + BACK_S
    while not holds():
        assert time.monotonic() < until, f"{what}: not within {BACK_S:g} s"
        time.sleep(LOOK_S)


def consume(client: Client) -> int:
    """Ack everything; returns the records."""
    taken = 0
    with client.subscriber(SINK) as subscriber:
        while client.sinks.stats(SINK).pending():
            delivery = subscriber.take(0.05)
            if delivery is not None:
                taken += len(delivery)
                delivery.ack(wait=True)
    return taken


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "size", "together"),
    [(200, MIB - 1_000, 8), (100_000, 1_000, 8), (400, 250_000, 1)],
    ids=["200 large pages", "100,000 records", "400 pages through the log"],
)
def test_the_room_of_what_was_acked_is_released_while_the_broker_runs(
    records: int, size: int, together: int, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    values = [random.Random(number).randbytes(size) for number in range(together)]
    with serve_command(store) as broker, Client(broker.ready(), settings=SETTINGS) as client:
        client.sinks.create(SINK)
        with client.publisher(SINK) as publisher:
            for _ in range(0, records, together):
                sent = publisher.send_many(values, partition=0)
                if together == 1:
                    sent.result(60)  # one after the other, none is large enough for a file
            publisher.flush(60)
        peak = used(store)
        taken = consume(client)
        wait_until(lambda: used(store) < peak / 10, f"a tenth of {peak} bytes")
        stats = client.sinks.stats(SINK)

    assert taken == records
    assert peak > records * size
    assert (stats.records, stats.bytes, stats.identity_ok) == (0, 0, True)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("action", ["write", "sync", "compact"])
def test_a_kill_while_room_is_released_leaves_none_of_it_taken(
    action: Action, when: Literal["before", "after"], launcher: StoppingLauncher, listen: str, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    kept = [os.urandom(MIB) for _ in range(5)]
    broker = launcher.start_to(Stop(action, when, kind="reclaim"), store, listen)
    broker.ready()
    with Client(listen, settings=SETTINGS) as client:
        client.sinks.create(SINK)
        client.publish(SINK, [Record(os.urandom(MIB)) for _ in range(20)], partition=0)
        peak = used(store)
        consume(client)
    assert broker.wait() == -9

    with launcher.start(store, listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.publish(SINK, [Record(value) for value in kept], partition=0)
            wait_until(lambda: used(store) < peak / 2, f"half of {peak} bytes")
            found = [record.value for record in client.replay(SINK, partition=0) if hasattr(record, "value")]
        assert again.terminate() == 0

    assert peak > 20 * MIB
    assert found == kept


@pytest.mark.slow
def test_a_deleted_sink_leaves_nothing_behind(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with serve_command(store) as broker, Client(broker.ready(), settings=SETTINGS) as client:
        client.sinks.create(SINK)
        client.publish(SINK, [Record(os.urandom(MIB)) for _ in range(20)], partition=0)
        peak = used(store)
        client.sinks.delete(SINK, force=True)
        wait_until(lambda: used(store) < peak / 10, f"a tenth of {peak} bytes")

    assert peak > 20 * MIB
