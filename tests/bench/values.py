"""Values of a measurement: loads, samples, rows and bars.

A ratio is only taken between samples of one round, because a disk that others share changes its speed within a
minute. A row contains the median over the rounds, and a bar is compared with the median ratio.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Final

MIB: Final = 1 << 20
GIB: Final = 1 << 30
PAGE_BYTES: Final = MIB
DISTINCT: Final = 1_024
"""Different values: random, so that nothing can be compressed."""
LENGTH_BYTES: Final = 4
"""Bytes of a page per record, in addition to its value."""
FRAMING_BYTES: Final = 64
CHUNKS: Final = 8
"""Different pages: a page is not the one before it."""


class Load:
    """Records of one size for a number of partitions, in lists that fill a page each."""

    def __init__(self, record_bytes: int, partitions: int, total_bytes: int) -> None:
        self.record_bytes = record_bytes
        self.partitions = partitions
        per_page = (PAGE_BYTES - FRAMING_BYTES) // (record_bytes + LENGTH_BYTES)
        self.pages = max(partitions, total_bytes // (per_page * record_bytes))
        self.records = self.pages * per_page
        pool = [os.urandom(record_bytes) for _ in range(DISTINCT)]
        self._chunks = [
            [pool[(first * 131 + index * 7) % DISTINCT] for index in range(per_page)] for first in range(CHUNKS)
        ]

    @property
    def payload_bytes(self) -> int:
        """Bytes of all values."""
        return self.records * self.record_bytes

    def __iter__(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yield a partition and the values of a page, partitions in turn."""
        for number in range(self.pages):
            yield number % self.partitions, self._chunks[number % CHUNKS]


@dataclass(frozen=True, slots=True)
class Cost:
    """Resources that the broker's process used meanwhile."""

    processor_s: float
    """Of all its threads, in user and kernel mode."""

    written_bytes: int
    """Sent to the device, or to be sent, by the kernel's account of the process."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One thing done once."""

    records: int
    """Records, or operations where nothing is a record."""

    payload_bytes: int
    """Bytes of values."""

    seconds: float

    cost: Cost | None = None
    """Of the broker, where there is one."""

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds

    @property
    def bytes_per_s(self) -> float:
        return self.payload_bytes / self.seconds


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. What does not apply is None."""

    name: str
    record_bytes: int | None = None
    partitions: int | None = None
    records_per_s: float | None = None
    mb_per_s: float | None = None
    """10**6 bytes of values per second."""
    p50_ms: float | None = None
    p99_ms: float | None = None
    processor_s_per_gib: float | None = None
    """Of the broker, per GiB of values."""
    written_per_byte: float | None = None
    """Bytes to the device per byte of values."""
    memory_mib: float | None = None
    """Peak resident memory of the broker."""
    runs: int = 1


class Sense(StrEnum):
    """Good side of a bar."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio and what it has to be."""

    name: str
    ratio: float
    bar: float
    sense: Sense = Sense.AT_LEAST

    @property
    def met(self) -> bool:
        """True if the ratio is on the good side."""
        return self.ratio >= self.bar if self.sense is Sense.AT_LEAST else self.ratio <= self.bar


def row_of(name: str, samples: Sequence[Sample], *, record_bytes: int | None = None, partitions: int | None = None,
           memory_mib: float | None = None) -> Row:  # fmt: skip
    """The row of a throughput: medians over the rounds."""
    costs = [(sample, sample.cost) for sample in samples if sample.cost is not None]
    return Row(
        name=name,
        record_bytes=record_bytes,
        partitions=partitions,
        records_per_s=median(sample.records_per_s for sample in samples),
        mb_per_s=median(sample.bytes_per_s for sample in samples) / 1e6,
        processor_s_per_gib=median(c.processor_s * GIB / s.payload_bytes for s, c in costs) if costs else None,
        written_per_byte=median(c.written_bytes / s.payload_bytes for s, c in costs) if costs else None,
        memory_mib=memory_mib,
        runs=len(samples),
    )
