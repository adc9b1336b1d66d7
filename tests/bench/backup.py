"""Backups of a broker at work: what publishers notice, and how fast one is alone.

Data and target are on one disk, which is the worst case for both. The rounds are: publishing alone and during a full
backup, in turn; then, without load, a copy of as many bytes by the system, a full backup, and an incremental one after
1 % of new data.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

from forebay.client import Backup, Client, Record
from tests.bench.processes import child
from tests.bench.values import GIB, MIB, Bar, Load, Row, Sample, Sense, row_of

STORED_BYTES: Final = 2 * GIB
QUICK_BYTES: Final = 256 * MIB
RECORD_BYTES: Final = 1_024
PARTITIONS: Final = 4
SINK: Final = "backup"
PROBED: Final = "probe"
PART_BYTES: Final = 32 * MIB
PROBE_S: Final = 0.005
"""Interval of the small appends whose longest wait is measured."""
THROUGHPUT_BAR: Final = 0.8
STALL_BAR_MS: Final = 250.0
INCREMENTAL_BAR: Final = 0.03
COPY_BAR: Final = 0.5


class Probe:
    """Appends single records, and keeps the longest wait for a receipt."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._stopping = threading.Event()
        self.longest_s = 0.0
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with Client(self._endpoint) as client:
            while not self._stopping.wait(PROBE_S):
                begun = time.perf_counter()
                client.publish(PROBED, [Record(b"probe")])
                self.longest_s = max(self.longest_s, time.perf_counter() - begun)

    def __enter__(self) -> Probe:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._stopping.set()
        self._thread.join()


def measure(
    folder: Path,
    *,
    rounds: int,
    quick: bool,
    rows: list[Row],
    bars: list[Bar],
    say: Callable[[str], None],
    stored_bytes: int = STORED_BYTES,
) -> None:
    """Measure in ``folder``."""
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
        alone: list[Sample] = []
        during: list[Sample] = []
        waits: list[tuple[float, float]] = []
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            with Probe(endpoint) as probe:
                alone.append(_publish_until(client, threading.Event(), total // 4))
            with Probe(endpoint) as beside:
                during.append(_publish_during_a_backup(client, bytes_max=total // 2))
            waits.append((probe.longest_s, beside.longest_s))
        say("a full backup without load, and a copy")
        full = made(client, full=True)
        copied_s = copy(folder / "data", folder / "copy", full.bytes)
        publish(client, full.bytes // 100)
        say("an incremental backup")
        incremental = made(client)
    rows += [row_of("publish without a backup", alone), row_of("publish during a full backup", during)]
    rows.append(Row("longest append without a backup", p50_ms=median(before for before, _ in waits) * 1e3))
    rows.append(Row("longest append during a backup", p50_ms=median(wait for _, wait in waits) * 1e3))
    speed, copy_speed = full.transferred_bytes / full.duration_s, full.bytes / copied_s
    rows.append(Row(f"full backup of {full.bytes // MIB} MiB", mb_per_s=speed / 1e6, p50_ms=full.stall_s * 1e3))
    rows.append(Row("copy of as much by the system, synced", mb_per_s=copy_speed / 1e6))
    ratios = [one.bytes_per_s / other.bytes_per_s for one, other in zip(during, alone, strict=True)]
    part = incremental.transferred_bytes / full.transferred_bytes
    longest_ms = max(wait for _, wait in waits) * 1e3
    bars.append(Bar("publish during a backup / without", median(ratios), THROUGHPUT_BAR, Sense.AT_LEAST))
    bars.append(Bar("longest append during a backup in ms", longest_ms, STALL_BAR_MS, Sense.AT_MOST))
    bars.append(Bar("full backup / copy", speed / copy_speed, COPY_BAR, Sense.AT_LEAST))
    bars.append(Bar("incremental after 1 % / full, bytes", part, INCREMENTAL_BAR, Sense.AT_MOST))


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


def copy(folder: Path, into: Path, size: int) -> float:
    """Copy about so many bytes of files that are not in memory, synced each; returns the seconds."""
    into.mkdir()
    files = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    os.sync()
    for path in files:
        _with(path, lambda handle: os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED))
    begun, done = time.perf_counter(), 0
    for number, path in enumerate(reversed(files)):
        if done >= size:
            break
        done += _copy_one(path, into / str(number))
    seconds = time.perf_counter() - begun
    for path in into.iterdir():
        path.unlink()
    return seconds * size / max(done, 1)


def _copy_one(path: Path, into: Path) -> int:
    source, made_ = os.open(path, os.O_RDONLY), os.open(into, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        done = 0
        while count := os.sendfile(made_, source, done, 8 * MIB):
            done += count
        os.fdatasync(made_)
        return done
    finally:
        os.close(source)
        os.close(made_)


def _with(path: Path, use: Callable[[int], None]) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        use(handle)
    finally:
        os.close(handle)
