"""Result of the last `verify` of a data directory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LastCheck:
    """Time and result of a verification."""

    at_us: int
    """End of the check, wall clock, microseconds since 1970 UTC."""

    damage: int
    """Number of damages of the store as a whole."""

    damaged_pages: int
    lost_records: int

    @property
    def is_clean(self) -> bool:
        """True if nothing was damaged."""
        return not (self.damage or self.damaged_pages or self.lost_records)
