"""Facts of a broker that its runtime does not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that the composition root gives to the console."""

    version: str
    endpoint: Callable[[], str]
    """HOST:PORT of the broker, known when it has started."""

    started_at_us: int
    """Wall clock, microseconds since 1970 UTC."""

    warnings: Callable[[], Sequence[str]]
