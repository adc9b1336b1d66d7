"""Throughput of the disk alone: the reference for everything that is made durable."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.bench.values import MIB, Sample

SMALL_BYTES: Final = 256


def write_and_sync(folder: Path, total_bytes: int) -> Sample:
    """Append blocks of 1 MiB, each with an ``fdatasync``."""
    block = os.urandom(MIB)
    blocks = max(1, total_bytes // MIB)
    with _file(folder) as descriptor:
        begun = time.perf_counter()
        for _ in range(blocks):
            os.write(descriptor, block)
            os.fdatasync(descriptor)
        return Sample(blocks, blocks * MIB, time.perf_counter() - begun)


def small_syncs(folder: Path, count: int) -> list[float]:
    """Seconds of each append of a small record with its ``fdatasync``."""
    record = os.urandom(SMALL_BYTES)
    taken = []
    with _file(folder) as descriptor:
        for _ in range(count):
            begun = time.perf_counter()
            os.write(descriptor, record)
            os.fdatasync(descriptor)
            taken.append(time.perf_counter() - begun)
    return taken


def read_cold(path: Path) -> Sample:
    """Read a file that is not in memory, in order."""
    descriptor = os.open(path, os.O_RDONLY)
    size = 0
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        begun = time.perf_counter()
        while block := os.read(descriptor, MIB):
            size += len(block)
        return Sample(size // MIB, size, time.perf_counter() - begun)
    finally:
        os.close(descriptor)


@contextmanager
def _file(folder: Path) -> Iterator[int]:
    path = folder / "probe"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink()
