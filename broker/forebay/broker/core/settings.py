"""Settings of a sink: the table of all of them, and the values of one sink.

``SinkSettings`` declares each setting once, with its default, its bounds and its effect on the guarantees; ``SETTINGS``
lists these entries. The checks, the error messages, the broker's ``[sink_defaults]``, the mapping to the wire and the
reference are derived from them. The description of a setting is its comment in ``sink.proto``.

Durations are integers in microseconds here; the wire has `Duration`, the configuration and the client have seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from forebay.broker.core.errors import InvalidSetting

SECOND_US: Final = 1_000_000
_MINUTE_US: Final = 60 * SECOND_US
_HOUR_US: Final = 60 * _MINUTE_US
_DAY_US: Final = 24 * _HOUR_US
_DURATIONS: Final = {"d": _DAY_US, "h": _HOUR_US, "min": _MINUTE_US, "s": SECOND_US, "ms": 1_000, "us": 1}
_SIZES: Final = {"GB": 10**9, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}
_HIGHEST: Final = 1 << 62
"""Bound of a number that has none for users."""

_UNLIMITED: Final = MappingProxyType({0: "unlimited"})
_Value = TypeVar("_Value", bool, int, float)


class Overflow(IntEnum):
    """Policy for an append that does not fit; the numbers are those of the wire."""

    DROP_OLDEST = 1
    REJECT = 2


class Ordering(IntEnum):
    """Effect of a failed delivery on the records after it; the numbers are those of the wire."""

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
class Setting:
    """Entry of the table: one setting of a sink."""

    name: str
    """Name here and in stored records; that of a duration ends in ``_us``."""

    default: Any
    """Default, whose type is the type of the setting; a member of an enumeration for a choice."""

    low: float
    high: float
    """Bounds, both included."""

    named: Mapping[int, str]
    """Meaning of single numbers, which are allowed besides the bounds."""

    unit: str
    guarantee: str
    """Effect on the guarantees of the sink, for the reference."""

    @property
    def is_duration(self) -> bool:
        """True for a duration."""
        return self.name.endswith("_us")

    @property
    def choices(self) -> type[IntEnum] | None:
        """Enumeration of the values, or None."""
        return type(self.default) if isinstance(self.default, IntEnum) else None

    @property
    def wire_name(self) -> str:
        """Name of the field of the wire."""
        return self.name.removesuffix("_us")

    @property
    def public_name(self) -> str:
        """Name in the configuration, the client and the command line, where durations are seconds."""
        return f"{self.wire_name}_s" if self.is_duration else self.name

    @property
    def allowed(self) -> str:
        """Allowed values as text for people."""
        if isinstance(self.default, bool):
            return "true or false"
        options = [member.name for member in self.choices or ()]
        options += [f"{value} ({meaning})" for value, meaning in self.named.items()]
        if self.high == _HIGHEST:
            options.append(f"a number of {self.unit}" if self.named else f"at least {self.text(self.low)}")
        elif self.low < self.high:
            counted = f" {self.unit}" if self.unit and self.unit != "bytes" else ""
            options.append(f"{self.text(self.low)} to {self.text(self.high)}{counted}")
        return " or ".join(filter(None, (", ".join(options[:-1]), options[-1])))

    def text(self, value: Any) -> str:
        """Return a value as text for people, without the unit of a count."""
        if isinstance(value, bool):
            return str(value).lower()
        if self.choices is not None:
            return self.choices(value).name
        for unit, size in (_DURATIONS if self.is_duration else _SIZES if self.unit == "bytes" else {}).items():
            if value and value % size == 0:
                return f"{value // size:,} {unit}"
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"

    def fits(self, value: object) -> bool:
        """Return whether a value has the type of the setting; a number is no bool, nor a bool a number."""
        if isinstance(self.default, bool) or isinstance(value, bool):
            return isinstance(self.default, bool) and isinstance(value, bool)
        return isinstance(value, int | float if isinstance(self.default, float) else int)

    def error(self, value: object, allowed: str = "") -> InvalidSetting:
        """Return the error for a value, by the name of the wire and with the unit of a duration."""
        text = self.text(value) if self.is_duration and self.fits(value) else value
        return InvalidSetting(self.wire_name, text, allowed or self.allowed)

    def allows(self, value: Any) -> bool:
        """Return whether a value of the setting's type is allowed."""
        if self.choices is not None:
            return value in _members(self.choices)
        return isinstance(value, bool) or value in self.named or self.low <= value <= self.high


@cache
def _members(choices: type[IntEnum]) -> frozenset[IntEnum]:
    return frozenset(choices)


def _setting(
    default: _Value,
    low: float = 0,
    high: float = 0,
    unit: str = "",
    *,
    named: Mapping[int, str] = MappingProxyType({}),
    guarantee: str = "kept",
) -> _Value:
    """Declare a setting: the entry of ``SETTINGS`` takes its facts from here."""
    facts = {"low": low, "high": high, "unit": unit, "named": named, "guarantee": guarantee}
    return field(default=default, metadata=facts)


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Settings of a sink: its values, and by their declaration the table of settings."""

    partitions: int = _setting(1, 1, 1024, guarantee="kept; raising it breaks the order of a key at that point")
    buffer_page_size: int = _setting(256, 1, 65_536, "records")
    max_disk_cache: int = _setting(0, 1, _HIGHEST, "records", named=_UNLIMITED, guarantee="kept with `REJECT`")
    max_total_bytes: int = _setting(10_000_000_000, 1024, _HIGHEST, "bytes", guarantee="kept with `REJECT`")
    overflow: int = _setting(
        Overflow.REJECT, guarantee="`DROP_OLDEST` weakens: overflowing records are dropped, counted, with a gap"
    )
    in_flight_bytes_max: int = _setting(64 << 20, 64 << 10, 1 << 30, "bytes")
    resend_interval_us: int = _setting(0, 0, _HOUR_US)
    retry_backoff_min_us: int = _setting(100_000, 1_000, _HOUR_US)
    retry_backoff_max_us: int = _setting(30 * SECOND_US, 1_000, _DAY_US)
    retry_backoff_factor: float = _setting(2.0, 1, 10)
    ack_deadline_us: int = _setting(30 * SECOND_US, 100_000, _DAY_US)
    writer_ttl_us: int = _setting(
        _DAY_US, _MINUTE_US, 365 * _DAY_US, guarantee="a publisher that retries a page later appends it twice"
    )
    staging_ttl_us: int = _setting(
        _DAY_US, _MINUTE_US, 365 * _DAY_US, guarantee="an epoch that is committed later is rejected; stage it again"
    )
    realtime: bool = _setting(True)
    tail_bytes_max: int = _setting(0, 1, _HIGHEST, "bytes", named=_UNLIMITED)
    max_age_us: int = _setting(
        0,
        SECOND_US,
        3_650 * _DAY_US,
        named=_UNLIMITED,
        guarantee="weakens: records that are not delivered in time are dropped, counted, with a gap",
    )
    clean_cache_at_stop: bool = _setting(
        False,
        guarantee="true weakens: a clean stop, not a kill, drops unsettled records, counted, with a gap. "
        "It takes about a second per 30,000 pages; if the process is ended earlier, the rest stays",
    )
    memory_overload_protection: bool = _setting(
        True,
        guarantee="kept with `DISK` and `SPILL`: publishers wait, and `SPILL` writes its memory tier to disk. "
        "With `MEMORY` it weakens: each append drops as many bytes of the oldest records",
    )
    retain_acked_time_us: int = _setting(0, 0, 3_650 * _DAY_US, guarantee="kept; uses disk for settled pages")
    retain_acked_bytes: int = _setting(
        0,
        1,
        _HIGHEST,
        "bytes",
        named=MappingProxyType({0: "none"}),
        guarantee="kept; retained pages are removed before an append is rejected or a record is dropped",
    )
    ordering: int = _setting(
        Ordering.STRICT, guarantee="`RELAXED` weakens: records that failed are delivered out of order"
    )
    resend_priority: int = _setting(
        0, named=MappingProxyType({-1: "new records first", 0: "oldest first", 1: "retry queue first"})
    )
    relaxed_failures_max: int = _setting(10, 1, 1_000_000, "failures")
    max_attempts: int = _setting(
        0,
        1,
        1_000_000,
        "attempts",
        named=_UNLIMITED,
        guarantee="kept, among the dead letters; later records overtake a record that moves there",
    )
    dlq: bool = _setting(True, guarantee="kept: a rejected record moves in the batch that settles it")
    dlq_ratio_max: float = _setting(0.5, 0, 1)
    dlq_consecutive_max: int = _setting(1_000, 1, 1_000_000_000, "records", named=_UNLIMITED)
    buffer_mode: int = _setting(
        BufferMode.DISK,
        guarantee="`SPILL` weakens: a crash loses the records of the memory tier, counted, with a gap; "
        "with `MEMORY` a stop does too",
    )
    fsync: bool = _setting(
        True,
        guarantee="false weakens: a power loss may lose the last 100 ms, counted as an upper bound, with a gap; "
        "a kill loses nothing",
    )
    volatile: bool = _setting(False, guarantee="true weakens: a start wipes the sink, counted, with a gap")
    memory_cache_threshold: int = _setting(
        1_024, 1, 10_000_000, "records", guarantee="upper bound of the records that a crash loses"
    )

    @property
    def realtime_bytes(self) -> int | None:
        """Bound of the memory for the newest pages; None for none of its own."""
        return self.tail_bytes_max or None if self.realtime else 0

    def checked(self) -> SinkSettings:
        """Return the settings, or raise ``InvalidSetting`` for the first wrong one."""
        for problem in self.problems():
            raise problem
        return self

    def problems(self) -> Iterable[InvalidSetting]:
        """Yield every invalid setting, each once; a stored value may even have another type."""
        for name, allowed in self._invalid():
            yield _BY_NAME[name].error(getattr(self, name), allowed)

    def _invalid(self) -> Iterable[tuple[str, str]]:
        """Yield the name and the allowed values of every invalid setting."""
        fitting = {setting.name for setting in SETTINGS if setting.fits(getattr(self, setting.name))}
        for setting in SETTINGS:
            if setting.name not in fitting or not setting.allows(getattr(self, setting.name)):
                yield setting.name, setting.allowed
        if fitting >= {"memory_cache_threshold", "buffer_page_size", "buffer_mode", "volatile"}:
            if self.buffer_mode != BufferMode.DISK and 0 < self.memory_cache_threshold < self.buffer_page_size:
                yield "memory_cache_threshold", f"at least a page: buffer_page_size = {self.buffer_page_size}"
            if self.volatile and self.buffer_mode != BufferMode.SPILL:
                yield "volatile", "false unless buffer_mode is SPILL"
        least = _BY_NAME["retry_backoff_min_us"]
        if fitting >= {least.name, "retry_backoff_max_us"} and self.retry_backoff_max_us < self.retry_backoff_min_us:
            yield "retry_backoff_max_us", f"at least {least.wire_name} = {least.text(self.retry_backoff_min_us)}"

    @property
    def may_lose(self) -> bool:
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
        invalid = [(name, _BY_NAME[name].error(getattr(self, name), allowed)) for name, allowed in self._invalid()]
        if not invalid:  # nearly always, for each sink of a start
            return self, []
        defaults = {name: getattr(DEFAULTS, name) for name, _ in invalid}
        if "retry_backoff_max_us" in defaults or "retry_backoff_min_us" in defaults:
            defaults["retry_backoff_min_us"] = DEFAULTS.retry_backoff_min_us
            defaults["retry_backoff_max_us"] = DEFAULTS.retry_backoff_max_us
        corrected = replace(self, **defaults)
        if corrected.buffer_mode != BufferMode.DISK:  # a page fits into memory
            threshold = max(corrected.memory_cache_threshold, corrected.buffer_page_size)
            corrected = replace(corrected, memory_cache_threshold=threshold)
        if corrected.buffer_mode != BufferMode.SPILL:  # only with SPILL is the disk an overflow that may be wiped
            corrected = replace(corrected, volatile=False)
        return corrected, [problem for _, problem in invalid]

    def changed(self, values: Mapping[str, Any]) -> SinkSettings:
        """Return the settings with ``values`` applied, checked.

        `partitions` can only grow, and `buffer_mode` cannot change.
        """
        changed = replace(self, **values).checked()
        if changed.partitions < self.partitions:
            allowed = f"{self.partitions:,} to 1,024: partitions can be added, never removed"
            raise InvalidSetting("partitions", changed.partitions, allowed)
        if changed.buffer_mode != self.buffer_mode:
            allowed = f"as at creation: {BufferMode(self.buffer_mode).name}"
            raise InvalidSetting("buffer_mode", BufferMode(changed.buffer_mode).name, allowed)
        return changed

    def differences(self, other: SinkSettings) -> str:
        """Return the differences as text."""
        values = ((each, getattr(self, each.name), getattr(other, each.name)) for each in SETTINGS)
        return ", ".join(
            f"{each.wire_name} is {each.text(mine)}, asked is {each.text(theirs)}"
            for each, mine, theirs in values
            if mine != theirs
        )


DEFAULTS: Final = SinkSettings()
SETTINGS: Final = tuple(Setting(each.name, each.default, **each.metadata) for each in fields(SinkSettings))
"""Table of the settings of a sink."""

SETTING_NAMES: Final = tuple(setting.name for setting in SETTINGS)
_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
