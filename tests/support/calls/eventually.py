"""Waits for what a broker will say: bounded, and woken by the broker itself."""

from __future__ import annotations

import time
from collections.abc import Callable

from forebay.client import Client, SinkStats


def stats_when(client: Client, sink: str, holds: Callable[[SinkStats], bool], *, timeout_s: float = 20.0) -> SinkStats:
    """Return the first statistics of a sink for which ``holds``; an assertion fails after ``timeout_s``."""
    until = time.monotonic() + timeout_s
    for stats in client.sinks.watch(sink, interval_s=0.1):
        if holds(stats):
            return stats
        assert time.monotonic() < until, f"did not come within {timeout_s:g} s: {stats}"
    raise AssertionError("the broker ended the watch")


def until(holds: Callable[[], bool], *, timeout_s: float = 20.0) -> None:
    """Wait for a condition that no notification reports; an assertion fails after ``timeout_s``."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, f"did not come within {timeout_s:g} s"
        time.sleep(0.002)


def values_of(client: Client, sink: str, partition: int = 0) -> list[bytes]:
    """Everything that is stored in a partition, in order; nothing may be missing."""
    return [record.value for record in client.replay(sink, partition=partition, start=0) if hasattr(record, "value")]
