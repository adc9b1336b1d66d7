"""Facts about the broker for the console: version, endpoint, start time and warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forebay.broker.core.last_check import LastCheck


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that the runtime does not have; `server.py` passes them to the console."""

    version: str
    endpoint: Callable[[], str]
    """HOST:PORT of the broker, known when it has started."""

    started_at_us: int
    """Wall clock, microseconds since 1970 UTC."""

    last_check: LastCheck | None
    """Result of the last `verify` of the data directory, which needs a stopped broker."""

    warnings: Callable[[], Sequence[str]]
