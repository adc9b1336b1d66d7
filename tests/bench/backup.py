"""Backups of a broker at work: what publishers notice, and how fast one is alone.

Data and target are on one disk, which is the worst case for both. A round publishes during a full backup, then as many
bytes alone, and observes small appends for the same time. Then, without load and in turn: full backups, and copies of
as many bytes by the system. At last an incremental backup after 1 % of new data.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from forebay.client import Backup, Client
from tests.bench.append_probe import AppendProbe, Longest, append_probe
from tests.bench.processes import child
from tests.bench.values import GIB, MIB, Bar, Load, Row, Sample, Sense, row_of

STORED_BYTES: Final = 2 * GIB
QUICK_BYTES: Final = 256 * MIB
RECORD_BYTES: Final = 1_024
PARTITIONS: Final = 4
SINK: Final = "backup"
PROBED: Final = "probe"
PART_BYTES: Final = 32 * MIB
THROUGHPUT_BAR: Final = 0.8
STALL_BAR_MS: Final = 250.0
INCREMENTAL_BAR: Final = 0.03
COPY_BAR: Final = 0.5


@dataclass(frozen=True, slots=True)
class Pair:
    """Figures of a round: as many bytes in both parts, and the same time of observation."""

    alone: Sample
    during: Sample
    longest_alone: Longest
    longest_during: Longest


def measure(
    folder: Path,
    *,
    rounds: int,
    quick: bool,
    rows: list[Row],
    bars: list[Bar],
    say: Callable[[str], None],
    stored_bytes: int = STORED_BYTES,
    is_loaded: bool = True,
) -> None:
    """Measure in ``folder``; without ``is_loaded``, only the speed of a backup and its size after 1 % of new data."""
    total = QUICK_BYTES if quick else stored_bytes
    target = folder / "target"
    with ExitStack() as stack:
        process = stack.enter_context(
            child(
                "forebay.cli", "serve", "--data-dir", str(folder / "data"), "--listen", "127.0.0.1:0", "--log-level",
                "warning", "--set", f"backup_target={target}", "-o", "json", log=folder / "broker.log",
            )
        )  # fmt: skip
        endpoint = str(process.report()["endpoint"])
        client = stack.enter_context(Client(endpoint))
        client.sinks.create(SINK, partitions=PARTITIONS, max_total_bytes=1 << 40)
        client.sinks.create(PROBED)
        say(f"storing {total // MIB} MiB")
        publish(client, total)
        if is_loaded:
            with append_probe(endpoint, PROBED, folder / "probe.log") as probe:
                names = [f"round {number + 1} of {rounds}" for number in range(rounds)]
                _report_load([_pair(client, probe, target, total // 2, say, name) for name in names], rows, bars)
        copies, fulls, full = _without_load(client, folder, rounds, say)
        publish(client, full.bytes // 100)
        say("an incremental backup")
        incremental = made(client)
    rows.append(row_of(f"full backup of {full.bytes // MIB} MiB without load", fulls))
    rows.append(row_of("cp and sync of as much", copies))
    of_copy = median(one.bytes_per_s / other.bytes_per_s for one, other in zip(fulls, copies, strict=True))
    part = incremental.transferred_bytes / full.transferred_bytes
    bars.append(Bar("speed of a full backup / of cp and sync", of_copy, COPY_BAR, Sense.AT_LEAST))
    bars.append(Bar("bytes of an incremental backup after 1 % / of a full one", part, INCREMENTAL_BAR, Sense.AT_MOST))


def _report_load(pairs: list[Pair], rows: list[Row], bars: list[Bar]) -> None:
    rows.append(row_of("publish without a backup", [one.alone for one in pairs]))
    rows.append(row_of("publish during a full backup", [one.during for one in pairs]))
    longest = {
        "append without a backup": [one.longest_alone.append_s for one in pairs],
        "append during a backup": [one.longest_during.append_s for one in pairs],
        "oversleep of a process without a backup": [one.longest_alone.oversleep_s for one in pairs],
        "oversleep of a process during a backup": [one.longest_during.oversleep_s for one in pairs],
    }
    for name, waits in longest.items():
        rows.append(Row(f"longest {name}", p50_ms=median(waits) * 1e3, p99_ms=max(waits) * 1e3))
    ratio = median(one.during.bytes_per_s / one.alone.bytes_per_s for one in pairs)
    longest_ms = max(longest["append during a backup"]) * 1e3
    bars.append(Bar("publish during a backup / without", ratio, THROUGHPUT_BAR, Sense.AT_LEAST))
    bars.append(Bar("longest append during a backup in ms", longest_ms, STALL_BAR_MS, Sense.AT_MOST))


def _pair(
    client: Client, probe: AppendProbe, target: Path, bytes_max: int, say: Callable[[str], None], name: str
) -> Pair:
    """Publish during a full backup, then as much alone, and observe both for the same time."""
    _remove(target)
    say(f"{name}: during a backup")
    probe.longest()
    begun = time.perf_counter()
    during = _publish_during_a_backup(client, bytes_max)
    seconds = time.perf_counter() - begun
    longest_during = probe.longest()
    say(f"{name}: alone")
    begun = time.perf_counter()
    alone = _publish_until(client, threading.Event(), during.payload_bytes)
    time.sleep(max(0.0, seconds - (time.perf_counter() - begun)))
    return Pair(alone, during, probe.longest(), longest_during)


def _without_load(
    client: Client, folder: Path, rounds: int, say: Callable[[str], None]
) -> tuple[list[Sample], list[Sample], Backup]:
    """Copy the data directory and make a full backup, in turn; returns the last one too."""
    copies: list[Sample] = []
    fulls: list[Sample] = []
    full: Backup | None = None
    for number in range(rounds):
        say(f"a copy, and a full backup without load, round {number + 1} of {rounds}")
        _remove(folder / "target")
        copies.append(copy(folder / "data", folder / "copy"))
        os.sync()
        begun = time.perf_counter()
        full = made(client, full=True)
        fulls.append(Sample(full.files, full.transferred_bytes, time.perf_counter() - begun))
    assert full is not None
    return copies, fulls, full


def _remove(target: Path) -> None:
    """Delete the backups: their space, and the time that its release takes, are not measured."""
    if target.exists():
        shutil.rmtree(target)
    os.sync()


def publish(client: Client, size: int) -> Sample:
    """Publish about so many bytes."""
    load = Load(RECORD_BYTES, PARTITIONS, size)
    begun = time.perf_counter()
    with client.publisher(SINK, window_pages=96) as publisher:
        for partition, values in load:
            publisher.send_many(values, partition=partition)
    return Sample(load.records, load.payload_bytes, time.perf_counter() - begun)


def _publish_during_a_backup(client: Client, bytes_max: int) -> Sample:
    """Publish while a full backup is made, but no more than so many bytes."""
    ended = threading.Event()

    def back_up() -> None:
        try:
            made(client, full=True)
        finally:
            ended.set()

    thread = threading.Thread(target=back_up)
    thread.start()
    try:
        return _publish_until(client, ended, bytes_max)
    finally:
        thread.join()


def _publish_until(client: Client, ended: threading.Event, bytes_max: int) -> Sample:
    """Publish in equal parts until something has ended, but no more than so many bytes."""
    parts: list[Sample] = []
    while not ended.is_set() and sum(part.payload_bytes for part in parts) < bytes_max:
        parts.append(publish(client, PART_BYTES))
    seconds = sum(part.seconds for part in parts)
    return Sample(sum(part.records for part in parts), sum(part.payload_bytes for part in parts), seconds)


def made(client: Client, *, full: bool = False) -> Backup:
    """Make a backup."""
    *_, last = client.backups.create(full=full)
    assert isinstance(last, Backup)
    return last


def copy(folder: Path, into: Path) -> Sample:
    """Copy a directory whose files are not in memory, and sync the device once."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    os.sync()
    for path in files:
        _drop_from_memory(path)
    begun = time.perf_counter()
    subprocess.run(["cp", "--recursive", "--reflink=never", str(folder), str(into)], check=True)
    os.sync()
    seconds = time.perf_counter() - begun
    size = sum(path.stat().st_size for path in into.rglob("*") if path.is_file())
    shutil.rmtree(into)
    return Sample(len(files), size, seconds)


def _drop_from_memory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)
