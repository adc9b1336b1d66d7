"""Settings of one sink: values, bounds and checks.

Durations are integers in microseconds here; the wire has `Duration`, the configuration file has seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import IntEnum
from typing import Any, Final

from forebay.broker.core.errors import InvalidSetting

SECOND_US: Final = 1_000_000
_HOUR_US: Final = 3_600 * SECOND_US


class Overflow(IntEnum):
    """Policy for an append that does not fit; the numbers are those of the wire."""

    DROP_OLDEST = 1
    REJECT = 2


class Ordering(IntEnum):
    """Effect of a failed delivery on the records behind it; the numbers are those of the wire."""

    STRICT = 1
    RELAXED = 2


class BufferMode(IntEnum):
    """Storage of pages; the numbers are those of the wire."""

    DISK = 1
    """All pages are written to disk."""

    SPILL = 2
    """Pages go to memory as far as they fit, and the others to disk."""

    MEMORY = 3
    """No page is written to disk."""


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Settings that a user tunes. Their bounds are in ``_BOUNDS``."""

    partitions: int = 1
    buffer_page_size: int = 256
    max_disk_cache: int = 0
    max_total_bytes: int = 10_000_000_000
    overflow: int = Overflow.REJECT
    in_flight_bytes_max: int = 64 << 20
    resend_interval_us: int = 0
    retry_backoff_min_us: int = 100_000
    retry_backoff_max_us: int = 30 * SECOND_US
    retry_backoff_factor: float = 2.0
    ack_deadline_us: int = 30 * SECOND_US
    writer_ttl_us: int = 24 * _HOUR_US
    staging_ttl_us: int = 24 * _HOUR_US
    realtime: bool = True
    max_age_us: int = 0
    clean_cache_at_stop: bool = False
    memory_overload_protection: bool = True
    retain_acked_time_us: int = 0
    retain_acked_bytes: int = 0
    ordering: int = Ordering.STRICT
    resend_priority: int = 0
    relaxed_failures_max: int = 10
    max_attempts: int = 0
    dlq: bool = True
    dlq_ratio_max: float = 0.5
    dlq_consecutive_max: int = 1_000
    buffer_mode: int = BufferMode.DISK
    fsync: bool = True
    volatile: bool = False
    memory_cache_threshold: int = 1_024

    def checked(self) -> SinkSettings:
        """Return the settings, or raise ``InvalidSetting`` for the first wrong one."""
        for problem in self.problems():
            raise problem
        return self

    def problems(self) -> Iterable[InvalidSetting]:
        """Yield every invalid setting, each once; a stored value may even have another type."""
        strange = {name for name in SETTING_NAMES if not _fits(getattr(self, name), getattr(DEFAULTS, name))}
        for name in SETTING_NAMES:
            low, high, _ = _BOUNDS.get(name, (None, None, ""))
            value = getattr(self, name)
            if name in strange or (low is not None and high is not None and not low <= value <= high):
                yield InvalidSetting(name, value, allowed_values(name))
        if "overflow" not in strange and self.overflow not in set(Overflow):
            yield InvalidSetting("overflow", self.overflow, _ALLOWED["overflow"])
        if "ordering" not in strange and self.ordering not in set(Ordering):
            yield InvalidSetting("ordering", self.ordering, _ALLOWED["ordering"])
        if "max_age_us" not in strange and 0 < self.max_age_us < SECOND_US:
            yield InvalidSetting("max_age_us", self.max_age_us, _BOUNDS["max_age_us"][2])
        if not strange & {"memory_cache_threshold", "buffer_page_size", "buffer_mode", "volatile"}:
            yield from self._memory_problems()
        if strange & {"retry_backoff_min_us", "retry_backoff_max_us"}:
            return
        if self.retry_backoff_max_us < self.retry_backoff_min_us:
            yield InvalidSetting(
                "retry_backoff_max_us",
                self.retry_backoff_max_us,
                f"at least retry_backoff_min_us = {self.retry_backoff_min_us}",
            )

    def _memory_problems(self) -> Iterable[InvalidSetting]:
        if self.buffer_mode not in set(BufferMode):
            yield InvalidSetting("buffer_mode", self.buffer_mode, "DISK, SPILL or MEMORY")
        if self.buffer_mode != BufferMode.DISK and 0 < self.memory_cache_threshold < self.buffer_page_size:
            allowed = f"at least a page: buffer_page_size = {self.buffer_page_size}"
            yield InvalidSetting("memory_cache_threshold", self.memory_cache_threshold, allowed)
        if self.volatile and self.buffer_mode != BufferMode.SPILL:
            yield InvalidSetting("volatile", self.volatile, "false unless buffer_mode is SPILL")

    @property
    def forgets(self) -> bool:
        """True if a crash may lose accepted records."""
        return self.buffer_mode != BufferMode.DISK or not self.fsync

    @property
    def records_max(self) -> tuple[str, int]:
        """Setting that bounds the number of records, and the bound; 0 is unlimited."""
        if self.buffer_mode == BufferMode.MEMORY:
            return "memory_cache_threshold", self.memory_cache_threshold
        if self.buffer_mode == BufferMode.SPILL and self.max_disk_cache:
            return "memory_cache_threshold + max_disk_cache", self.memory_cache_threshold + self.max_disk_cache
        return "max_disk_cache", self.max_disk_cache

    def corrected(self) -> tuple[SinkSettings, list[InvalidSetting]]:
        """Return stored settings with every invalid value replaced by its default, and the errors."""
        wrong = list(self.problems())
        mended = {problem.field: getattr(DEFAULTS, problem.field) for problem in wrong}
        if "retry_backoff_max_us" in mended or "retry_backoff_min_us" in mended:
            mended["retry_backoff_min_us"] = DEFAULTS.retry_backoff_min_us
            mended["retry_backoff_max_us"] = DEFAULTS.retry_backoff_max_us
        corrected = replace(self, **mended)
        if corrected.buffer_mode != BufferMode.DISK:  # a page fits into memory
            threshold = max(corrected.memory_cache_threshold, corrected.buffer_page_size)
            corrected = replace(corrected, memory_cache_threshold=threshold)
        return corrected, wrong

    def changed(self, values: Mapping[str, Any]) -> SinkSettings:
        """Return the settings with ``values`` applied, checked.

        `partitions` can only grow, and `buffer_mode` cannot change.
        """
        changed = replace(self, **values).checked()
        if changed.partitions < self.partitions:
            allowed = f"{self.partitions} to 1024: partitions can be added, never removed"
            raise InvalidSetting("partitions", changed.partitions, allowed)
        if changed.buffer_mode != self.buffer_mode:
            allowed = f"as at creation: {BufferMode(self.buffer_mode).name}"
            raise InvalidSetting("buffer_mode", BufferMode(changed.buffer_mode).name, allowed)
        return changed

    def differences(self, other: SinkSettings) -> str:
        """Return the differences as text."""
        mine, theirs = asdict(self), asdict(other)
        return ", ".join(
            f"{name} is {mine[name]}, asked is {theirs[name]}" for name in mine if mine[name] != theirs[name]
        )


_BOUNDS: Final[Mapping[str, tuple[float, float, str]]] = {
    "partitions": (1, 1024, "1 to 1024"),
    "buffer_page_size": (1, 65_536, "1 to 65,536 records"),
    "max_disk_cache": (0, 2**62, "0 (no bound) or a number of records"),
    "max_total_bytes": (1024, 2**62, "at least 1 KiB"),
    "in_flight_bytes_max": (64 << 10, 1 << 30, "64 KiB to 1 GiB"),
    "resend_interval_us": (0, _HOUR_US, "0 to 1 h"),
    "retry_backoff_min_us": (1_000, _HOUR_US, "1 ms to 1 h"),
    "retry_backoff_max_us": (1_000, 24 * _HOUR_US, "1 ms to 24 h"),
    "retry_backoff_factor": (1.0, 10.0, "1 to 10"),
    "ack_deadline_us": (100_000, 24 * _HOUR_US, "100 ms to 24 h"),
    "max_age_us": (0, 3_650 * 24 * _HOUR_US, "0 (for ever) or 1 s to 3,650 d"),
    "resend_priority": (-1, 1, "-1 (live records first), 0 (by age) or 1 (resends first)"),
    "relaxed_failures_max": (1, 1_000_000, "1 to 1,000,000"),
    "memory_cache_threshold": (1, 10_000_000, "1 to 10,000,000 records"),
    "writer_ttl_us": (60 * SECOND_US, 365 * 24 * _HOUR_US, "1 min to 365 d"),
    "staging_ttl_us": (60 * SECOND_US, 365 * 24 * _HOUR_US, "1 min to 365 d"),
    "retain_acked_time_us": (0, 3_650 * 24 * _HOUR_US, "0 to 3,650 d"),
    "retain_acked_bytes": (0, 2**62, "0 (none) or a number of bytes"),
    "max_attempts": (0, 1_000_000, "0 (for ever) to 1,000,000"),
    "dlq_ratio_max": (0.0, 1.0, "0 to 1"),
    "dlq_consecutive_max": (0, 1_000_000_000, "0 (no bound) to 1,000,000,000 records"),
}

_ALLOWED: Final[Mapping[str, str]] = {"overflow": "DROP_OLDEST or REJECT", "ordering": "STRICT or RELAXED"}


def allowed_values(name: str) -> str:
    """Return the allowed values of a setting as text for people."""
    return _BOUNDS[name][2] if name in _BOUNDS else _ALLOWED.get(name, "true or false")


DEFAULTS: Final = SinkSettings()
SETTING_NAMES: Final = tuple(field.name for field in fields(SinkSettings))


def _fits(value: object, default: object) -> bool:
    """Return whether a value has the type of a setting; a number never passes for a bool, nor vice versa."""
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    return isinstance(value, int if isinstance(default, int) else type(default))
