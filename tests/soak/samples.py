"""Measurements of a running soak: resources of the broker, and its latency.

Memory is reported twice: resident, the usual metric, and private, which excludes memory shared with other processes
and pages of files. Linux only: it reads ``/proc``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Final

MIB: Final = 1 << 20
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of the broker."""

    at_s: float
    """Since the load began."""

    resident_bytes: int
    private_bytes: int
    open_files: int
    threads: int
    disk_bytes: int
    """Allocated in its directory, without the log."""

    log_bytes: int
    """Allocated by the store's log: it has a bound of its own, and what it holds goes when it is full, not before."""

    processor_s: float
    """Spent so far."""

    answers_ms: tuple[float, ...]
    """Latency of calls that the event loop answers from memory, as a caller observes it."""


def take(pid: int, directory: Path, at_s: float, answers_ms: Sequence[float]) -> Sample:
    """Look now."""
    status = _numbers(Path(f"/proc/{pid}/status"))
    memory = _numbers(Path(f"/proc/{pid}/smaps_rollup"))
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    log_bytes, disk_bytes = on_disk(directory)
    return Sample(
        at_s=at_s,
        resident_bytes=memory["Rss"] << 10,
        private_bytes=(memory["Private_Clean"] + memory["Private_Dirty"]) << 10,
        open_files=len(os.listdir(f"/proc/{pid}/fd")),
        threads=status["Threads"],
        disk_bytes=disk_bytes,
        log_bytes=log_bytes,
        processor_s=(int(fields[11]) + int(fields[12])) / TICKS_PER_S,
        answers_ms=tuple(answers_ms),
    )


def on_disk(directory: Path) -> tuple[int, int]:
    """Bytes used by the store's log, and by all other files. Files may disappear while they are examined."""
    log = rest = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                size = os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                continue
            if name.endswith(".log") and name[:-4].isdigit():
                log += size
            else:
                rest += size
    return log, rest


def growth(samples: Sequence[Sample], end_s: float) -> float:
    """Return the growth of private memory from the third quarter of ``end_s`` to the last, by medians."""
    third = [one.private_bytes for one in samples if end_s * 0.5 <= one.at_s < end_s * 0.75]
    fourth = [one.private_bytes for one in samples if end_s * 0.75 <= one.at_s <= end_s]
    return median(fourth) / median(third) - 1 if third and fourth else 0.0


def load_of(samples: Sequence[Sample]) -> float:
    """Parts of one processor that were used from the first sample to the last."""
    spent = samples[-1].processor_s - samples[0].processor_s
    return spent / (samples[-1].at_s - samples[0].at_s) if len(samples) > 1 else 0.0


def answers(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the latency over all samples."""
    found = sorted(one for sample in samples for one in sample.answers_ms)
    if len(found) < 2:
        return {}
    cuts = quantiles(found, n=100, method="inclusive")
    return {"p50": round(cuts[49], 2), "p99": round(cuts[98], 2), "max": round(found[-1], 2)}


def _numbers(path: Path) -> dict[str, int]:
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return {name: int(text.split()[0]) for name, _, text in lines if text.split() and text.split()[0].isdigit()}
