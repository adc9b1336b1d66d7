"""Publishing to sinks with pages in memory, all or up to the threshold, compared with pages on disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from forebay.client import BufferMode, Client
from tests.bench.processes import broker
from tests.bench.publish import publish
from tests.bench.values import Load, Row, Sample, row_of

PARTITIONS: Final = 4


def measure(
    folder: Path, record_bytes: int, total_bytes: int, *, rounds: int, rows: list[Row], say: Callable[[str], None]
) -> None:
    """Add a row for each mode."""
    load = Load(record_bytes, PARTITIONS, total_bytes)
    whole = load.records + PARTITIONS
    modes: dict[str, dict[str, Any]] = {
        "publish, DISK without fsync": {"fsync": False},
        "publish, SPILL in memory": {"buffer_mode": BufferMode.SPILL, "memory_cache_threshold": whole},
        "publish, SPILL onto the disk": {"buffer_mode": BufferMode.SPILL},
        "publish, MEMORY": {"buffer_mode": BufferMode.MEMORY, "memory_cache_threshold": whole},
    }
    for name, settings in modes.items():
        found: list[Sample] = []
        memory_mib = 0.0
        for number in range(rounds):
            say(f"{name}, {record_bytes} B, round {number + 1} of {rounds}")
            place = folder / f"modes-{number}"
            place.mkdir()
            try:
                with broker(place / "data", folder / "broker.log") as (process, endpoint), Client(endpoint) as client:
                    chosen = {"partitions": PARTITIONS, "max_total_bytes": 1 << 40, **settings}
                    client.sinks.create("bench", **chosen)
                    found.append(publish(client, "bench", load, process))
                    memory_mib = max(memory_mib, process.memory_peak_mib())
                    client.sinks.delete("bench", force=True)  # else the end would write memory out
            finally:
                shutil.rmtree(place)
                os.sync()
        rows.append(row_of(name, found, record_bytes=record_bytes, partitions=PARTITIONS, memory_mib=memory_mib))
