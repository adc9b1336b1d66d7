"""Upper bounds of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNLIMITED: Final = 1 << 30
"""Limit that is left to the target."""
WAIT_MAX_S: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Upper bounds of a batch."""

    records_max: int = 500
    """Maximum number of records, at least 1."""

    bytes_max: int = 1 << 20
    """Maximum bytes of keys and values; a larger record is sent alone."""

    wait_s: float | None = None
    """Time that a smaller batch waits for further records of its partition, up to 3,600; None for no wait."""

    def __post_init__(self) -> None:
        """Reject limits under which nothing could be sent."""
        for name in ("records_max", "bytes_max"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} = {value}: must be at least 1")
        if self.wait_s is not None and not 0 <= self.wait_s <= WAIT_MAX_S:
            raise ValueError(f"wait_s = {self.wait_s}: must be 0 to {WAIT_MAX_S:g}")

    @classmethod
    def given(cls, records: int | None, size: int | None, wait_s: float | None = None) -> BatchLimits | None:
        """Return limits of which some may be left to the target, or None if all are."""
        if records is None and size is None and wait_s is None:
            return None
        return cls(UNLIMITED if records is None else records, UNLIMITED if size is None else size, wait_s)

    @classmethod
    def of_target(cls) -> BatchLimits:
        """Return limits that leave both to the target."""
        return cls(UNLIMITED, UNLIMITED)

    def completed(self) -> BatchLimits:
        """Return these limits, with the usual ones for those that are left open."""
        usual = BatchLimits()
        return BatchLimits(
            usual.records_max if self.records_max == UNLIMITED else self.records_max,
            usual.bytes_max if self.bytes_max == UNLIMITED else self.bytes_max,
            self.wait_s,
        )

    def within(self, other: BatchLimits) -> BatchLimits:
        """Return the tighter limits of both, and the wait of these limits if they have one."""
        return BatchLimits(
            records_max=min(self.records_max, other.records_max),
            bytes_max=min(self.bytes_max, other.bytes_max),
            wait_s=other.wait_s if self.wait_s is None else self.wait_s,
        )
