"""The HTTP target as the tests open it, and a batch to send."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from forebay.deliver import Batch, TargetContext
from forebay.deliver.targets.http import HttpTarget
from forebay.deliver.targets.http_settings import HttpSettings
from tests.support.targets.memory_source import MemoryRecord

CONTEXT = TargetContext("orders", "default", 4)
NOW = datetime(2024, 5, 1, 12, 0, 0, tzinfo=UTC)
BATCH = Batch(
    "orders", "1f2e-3d", 2, (MemoryRecord(5, b'{"a": 1}'), MemoryRecord(6, b"text"), MemoryRecord(7, b"\xff"))
)


@contextmanager
def opened(settings: HttpSettings) -> Iterator[HttpTarget]:
    """Open a target and close it."""
    target = HttpTarget(settings, now=lambda: NOW)
    target.open(CONTEXT)
    try:
        yield target
    finally:
        target.close()
