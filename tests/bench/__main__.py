"""``python -m tests.bench``: every row in one run, its ratio and its bar. Exit code 1 when a bar is missed.

It writes into ``bench-results`` under the project, so that the disk that is measured is the one that it stands on. This
process is the client of all of it, set up as the README tells bulk readers to do: that serves the bare stream as well.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from forebay.client import Client
from forebay.process import tune
from tests.bench import (
    backup,
    bulk,
    callers,
    commit,
    console,
    disk,
    echo,
    lanes,
    latency,
    modes,
    postgresql,
    relaxed,
    report,
    restart,
    spark,
    telemetry,
    trickle,
)
from tests.bench.journal import measurement as journal
from tests.bench.processes import ROOT, broker
from tests.bench.small import measurement as small
from tests.bench.values import MIB, Bar, Load, Row, Sample, Sense, row_of

SIZES: Final = (256, 1024)
PARTITIONS: Final = (1, 4, 16, 64)
TOTAL_BYTES: Final = 512 * MIB
QUICK_BYTES: Final = 192 * MIB
SINGLE_BAR: Final = 2.0
SINGLES: Final = (2_000, 400)
"""In full, and quickly."""


def say(text: str) -> None:
    """Report progress to a waiting user."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of less each: for a look, not for figures")
    parser.add_argument("--no-spark", action="store_true", help="leave the row that needs Java out")
    parser.add_argument("--restart", action="store_true", help="measure restarts with a backlog, and nothing else")
    parser.add_argument("--trickle", action="store_true", help="compare one sink with a thousand, and nothing else")
    parser.add_argument("--relaxed", action="store_true", help="measure RELAXED order with nacks, and nothing else")
    parser.add_argument("--commit", action="store_true", help="measure the commit of a large epoch, and nothing else")
    parser.add_argument("--lanes", action="store_true", help="measure a sink of 102,400 lanes, and nothing else")
    parser.add_argument("--callers", action="store_true", help="measure many callers at once, and nothing else")
    parser.add_argument("--small", action="store_true", help="measure small records one by one, and nothing else")
    parser.add_argument("--postgresql", action="store_true", help="measure delivery to PostgreSQL, and nothing else")
    parser.add_argument("--telemetry", action="store_true", help="measure what telemetry costs, and nothing else")
    parser.add_argument("--console", action="store_true", help="measure what the console costs, and nothing else")
    parser.add_argument("--journal", action="store_true", help="measure a journal and followers, and nothing else")
    parser.add_argument("--backup", action="store_true", help="measure backups under load, and nothing else")
    parser.add_argument("--idle", action="store_true", help="with --backup: without load only")
    parser.add_argument("--stored", type=int, default=backup.STORED_BYTES, metavar="BYTES", help="in that broker")
    parser.add_argument("--tasks", type=int, default=commit.TASKS, metavar="N", help="of that epoch")
    parser.add_argument("--rounds", type=int, default=0, help="rounds per case: 3, with --quick 1")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="BYTES")
    parser.add_argument("--partitions", type=int, nargs="+", default=PARTITIONS, metavar="N")
    chosen = parser.parse_args(arguments)
    tune()
    rounds = chosen.rounds or (1 if chosen.quick else 3)
    begun = time.perf_counter()
    rows: list[Row] = []
    bars: list[Bar] = []
    disks: list[Sample] = []
    results = ROOT / "bench-results"
    results.mkdir(exist_ok=True)
    parts = (
        (chosen.trickle, trickle),
        (chosen.callers, callers),
        (chosen.postgresql, postgresql),
        (chosen.telemetry, telemetry),
        (chosen.console, console),
        (chosen.journal, journal),
        (chosen.small, small),
    )
    if chosen.restart or any(is_chosen for is_chosen, _ in parts):
        with tempfile.TemporaryDirectory(prefix="data-", dir=results) as name:
            if chosen.restart:
                restart.measure(Path(name), quick=chosen.quick, rows=rows, bars=bars, say=say)
            else:
                part = next(one for is_chosen, one in parts if is_chosen)
                part.measure(Path(name), rounds=rounds, quick=chosen.quick, rows=rows, bars=bars, say=say)
        return 0 if report.show(rows, bars, elapsed_s=time.perf_counter() - begun) else 1
    if chosen.commit or chosen.lanes:
        with tempfile.TemporaryDirectory(prefix="data-", dir=results) as name:
            if chosen.commit:
                commit.measure(
                    Path(name), rounds=rounds, quick=chosen.quick, rows=rows, bars=bars, say=say, tasks=chosen.tasks
                )
            if chosen.lanes:
                lanes.measure(Path(name), rounds=rounds, rows=rows, bars=bars, say=say)
        return 0 if report.show(rows, bars, elapsed_s=time.perf_counter() - begun) else 1
    if chosen.backup:
        with tempfile.TemporaryDirectory(prefix="data-", dir=results) as name:
            given = {
                "rounds": rounds,
                "quick": chosen.quick,
                "stored_bytes": chosen.stored,
                "is_loaded": not chosen.idle,
            }
            backup.measure(Path(name), rows=rows, bars=bars, say=say, **given)
        return 0 if report.show(rows, bars, elapsed_s=time.perf_counter() - begun) else 1
    if chosen.relaxed:
        with tempfile.TemporaryDirectory(prefix="data-", dir=results) as name:
            relaxed.measure(Path(name), rounds=rounds, quick=chosen.quick, rows=rows, bars=bars, say=say)
        return 0 if report.show(rows, bars, elapsed_s=time.perf_counter() - begun) else 1
    with (
        tempfile.TemporaryDirectory(prefix="data-", dir=results) as name,
        echo.Echo(Path(name) / "echo.log") as bare,
        echo.Echo(Path(name) / "tuned.log", tuned=True) as tuned,
    ):
        folder = Path(name)
        for record_bytes in chosen.sizes:
            for partitions in chosen.partitions:
                load = Load(record_bytes, partitions, QUICK_BYTES if chosen.quick else TOTAL_BYTES)
                found = []
                for number in range(rounds):
                    say(f"{record_bytes} B, {partitions} partitions, round {number + 1} of {rounds}")
                    found.append(bulk.measure(folder, load, (bare.endpoint, tuned.endpoint), number))
                disks += [one.disk for one in found]
                rows += bulk.rows_of(load, found)
                bars += bulk.bars_of(load, found)
        for record_bytes in chosen.sizes:
            modes.measure(folder, record_bytes, QUICK_BYTES, rounds=rounds, rows=rows, say=say)
        say("single records")
        _single_records(folder, bare.endpoint, SINGLES[1] if chosen.quick else SINGLES[0], rows, bars)
        small.measure(folder, rounds=rounds, quick=chosen.quick, rows=rows, bars=bars, say=say)
        callers.measure(folder, rounds=rounds, quick=chosen.quick, rows=rows, bars=bars, say=say)
        relaxed.measure(folder, rounds=rounds, quick=chosen.quick, rows=rows, bars=bars, say=say)
        if not chosen.no_spark:
            say("Spark")
            spark.compare(folder, rounds=rounds, quick=chosen.quick, rows=rows, bars=bars)
    rows.insert(0, row_of("raw disk, fdatasync per MiB", disks))
    return 0 if report.show(rows, bars, elapsed_s=time.perf_counter() - begun) else 1


def _single_records(folder: Path, echo_endpoint: str, count: int, rows: list[Row], bars: list[Bar]) -> None:
    synced = disk.small_syncs(folder, count)
    echoed = echo.unary(echo_endpoint, bytes(disk.SMALL_BYTES), count)
    rows.append(latency.row_of("small fdatasync", synced, disk.SMALL_BYTES))
    rows.append(latency.row_of("unary echo", echoed, disk.SMALL_BYTES))
    reachable_s = median(synced) + median(echoed)
    with broker(folder / "singles", folder / "broker.log") as (_, endpoint), Client(endpoint) as client:
        client.sinks.create("singles")
        for record_bytes in SIZES:
            published = latency.single_records(client, "singles", record_bytes, count)
            lingering = latency.single_records(client, "singles", record_bytes, count, linger_ms=5.0)
            called = latency.single_calls(client, "singles", record_bytes, count)
            rows.append(latency.row_of("one record, publisher", published, record_bytes))
            rows.append(latency.row_of("one record, publisher with linger", lingering, record_bytes))
            rows.append(latency.row_of("one record, call", called, record_bytes))
            ratio = median(published) / reachable_s
            bars.append(
                Bar(f"one record p50 / (fdatasync + unary echo), {record_bytes} B", ratio, SINGLE_BAR, Sense.AT_MOST)
            )


if __name__ == "__main__":
    sys.exit(main())
