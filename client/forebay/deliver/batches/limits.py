"""Upper bounds of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNLIMITED: Final = 1 << 30
"""Limit that is left to the target."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Upper bounds of a batch."""

    records_max: int = 500
    """Maximum number of records, at least 1."""

    bytes_max: int = 1 << 20
    """Maximum bytes of keys and values; a larger record is sent alone."""

    def __post_init__(self) -> None:
        """Reject limits under which nothing could be sent."""
        for name in ("records_max", "bytes_max"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} = {value}: must be at least 1")

    @classmethod
    def given(cls, records: int | None, size: int | None) -> BatchLimits | None:
        """Return limits of which one may be left to the target, or None if both are."""
        if records is None and size is None:
            return None
        return cls(UNLIMITED if records is None else records, UNLIMITED if size is None else size)

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
        )

    def within(self, other: BatchLimits) -> BatchLimits:
        """Return the tighter limits of both."""
        return BatchLimits(
            records_max=min(self.records_max, other.records_max),
            bytes_max=min(self.bytes_max, other.bytes_max),
        )
