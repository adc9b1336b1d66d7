"""Values of the realtime switch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RealtimeState:
    """Realtime switch after a change."""

    enabled: bool
    """Memory serves readers at the head: the switches of the sink and of the broker are on."""

    broker_enabled: bool
    """The switch of the broker is on."""
