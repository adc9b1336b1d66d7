"""Bytes are flipped in files of a stopped broker: readable records are delivered, others reported."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from forebay.client import Client, DropReason, Gap, Record, SinkStats
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.broker import serve_command
from tests.support.processes.stopping import StoppingLauncher

SINK = "orders"
MIB = 1 << 20
FOOTER_BYTES = 53


def flip(path: Path, position: int) -> None:
    """Damage one byte of a file; a negative position counts from its end."""
    content = bytearray(path.read_bytes())
    content[position] ^= 0x55
    path.write_bytes(content)


def table_with(store: Path, value: bytes) -> tuple[Path, int]:
    """The only file that holds a value, and where."""
    files = [*(store / "db").glob("*.sst"), *(store / "bulk").iterdir()]
    found = [(path, path.read_bytes().find(value)) for path in files]
    [(path, position)] = [(path, position) for path, position in found if position >= 0]
    return path, position


def filled(launcher: StoppingLauncher, store: Path, listen: str, *, size: int) -> list[bytes]:
    """Six pages of one record each, in tables, the broker stopped; returns their values."""
    values = [b"%d" % number * size for number in range(6)]
    with launcher.start(store, listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(SINK)
            if size == MIB:
                client.publish(SINK, [Record(value) for value in values], partition=0)
            else:
                for value in values:
                    client.publish(SINK, [Record(value)], partition=0)
        assert broker.terminate() == 0
    return values


def delivered(client: Client) -> list[bytes | Gap]:
    """Take and ack everything: values, and gaps where they are reported."""
    found: list[bytes | Gap] = []
    with client.subscriber(SINK) as subscriber:
        while client.sinks.stats(SINK).pending():
            delivery = subscriber.take(0.05)
            if delivery is not None and delivery.gap is not None:
                found.append(delivery.gap)
            elif delivery is not None:
                found += delivery.values()
                delivery.ack(wait=True)
    return found


def spans(found: list[bytes | Gap]) -> list[bytes | tuple[int, int, DropReason]]:
    """The same, gaps by what they say."""
    return [(one.first_offset, one.last_offset, one.reason) if isinstance(one, Gap) else one for one in found]


def dropped(stats: SinkStats) -> tuple[dict[DropReason, int], int, bool]:
    """Drops of the partition, drops in the subscription's account, and whether that balances."""
    return dict(stats.partitions[0].dropped), stats.subscriptions[0].partitions[0].dropped, stats.identity_ok


@pytest.mark.slow
@pytest.mark.parametrize("size", [1_000, MIB], ids=["small", "bulk"])
@pytest.mark.parametrize("damaged", [1, 5], ids=["r17 in the middle", "r18 the last"])
def test_a_damaged_page_is_a_gap_that_is_reported_and_counted_and_its_neighbours_are_delivered(
    damaged: int, size: int, launcher: StoppingLauncher, listen: str, tmp_path: Path
) -> None:
    """One page is damaged on disk: the others are delivered, a `Gap(CORRUPT)` in its place."""
    store = tmp_path / "store"
    values = filled(launcher, store, listen, size=size)
    path, position = table_with(store, values[damaged])
    flip(path, position + size // 2)

    with launcher.start(store, listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            found = delivered(client)
            client.publish(SINK, [Record(b"new")], partition=0)
            found += delivered(client)
            stats = client.sinks.stats(SINK)
        assert broker.terminate() == 0
    with launcher.start(store, listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            later = client.sinks.stats(SINK)

    gap = (damaged, damaged, DropReason.CORRUPT)
    assert spans(found) == [*values[:damaged], gap, *values[damaged + 1 :], b"new"]
    assert dropped(stats) == dropped(later) == ({DropReason.CORRUPT: 1}, 1, True)
    assert (later.records, later.pending()) == (0, 0)
    assert "page was damaged" in broker.log.read_text()


def flip_both_tables(path: Path) -> None:
    """Header and footer of a bulk file, which locate its values."""
    flip(path, 20)
    flip(path, -20)


def cut_off(path: Path) -> None:
    os.truncate(path, 10)


DAMAGES: list[tuple[int, Callable[[Path], None], str]] = [
    (1_000, partial(flip, position=-1), "table could not be read"),
    (1_000, partial(flip, position=-20), "table could not be read"),
    (1_000, partial(flip, position=-FOOTER_BYTES), "table could not be read"),
    (1_000, partial(flip, position=-100), "table could not be read"),
    (MIB, flip_both_tables, "bulk file cannot be read"),
    (MIB, cut_off, "bulk file cannot be read"),
    (MIB, Path.unlink, "page was quarantined"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "damage", "told"),
    DAMAGES,
    ids=["magic", "version", "footer", "directory", "bulk, both tables", "bulk, cut off", "bulk, missing"],
)
def test_a_file_that_cannot_be_opened_costs_its_own_pages_and_neither_the_others_nor_the_start(
    size: int,
    damage: Callable[[Path], None],
    told: str,
    launcher: StoppingLauncher,
    listen: str,
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    lost = filled(launcher, store, listen, size=size)
    with launcher.start(store, listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.publish(SINK, [Record(b"after" * MIB)], partition=0)
        assert broker.terminate() == 0
    damage(table_with(store, lost[0])[0])

    with launcher.start(store, listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.publish(SINK, [Record(b"new")], partition=0)
            found = spans(delivered(client))
            stats = client.sinks.stats(SINK)
        assert broker.terminate() == 0

    gaps = [(offset, offset, DropReason.CORRUPT) for offset in range(len(lost))]
    assert found == [*gaps, b"after" * MIB, b"new"]
    assert dropped(stats) == ({DropReason.CORRUPT: 6}, 6, True)
    assert told in broker.log.read_text()


@pytest.mark.slow
def test_a_damaged_log_gives_what_is_before_the_damage_and_says_that_synced_writes_are_missing(
    launcher: StoppingLauncher, listen: str, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    values = [b"%d" % number * 1_000 for number in range(6)]
    with launcher.start(store, listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create(SINK)
            for value in values:
                client.publish(SINK, [Record(value)], partition=0)
        broker.kill()
    silent = broker.log.read_text()
    [log] = (store / "db").glob("*.log")
    flip(log, log.read_bytes().find(values[3]) + 500)

    with launcher.start(store, listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            found = spans(delivered(client))
            stats = client.sinks.stats(SINK)
        assert again.terminate() == 0
    with serve_command(store, listen) as last:
        last.ready()
    told = [line for line in last.log.read_text().splitlines() if "synced writes were lost" in line]

    assert silent == ""
    assert found == values[:3]
    assert dropped(stats) == ({DropReason.CORRUPT: 3}, 3, True), "as many as were stored: no offset comes twice"
    assert len(told) == 1
    assert f"directory={store}" in told[0]
