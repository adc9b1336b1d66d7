"""Sizes and durations as typed by users: ``64MiB``, ``10GB``, ``30s``, ``1h30m``, or a plain number.

A plain number is in the unit that the option states. The units of sizes are those of SI (kB, MB, GB, TB: powers of
1000) and of IEC (KiB, MiB, GiB, TiB: powers of 1024), in any case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, TypeVar

N = TypeVar("N", int, float)

SIZES: Final = {
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}
"""Bytes by unit, in lower case."""

SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
"""Seconds by unit."""

SIZE_FORMS: Final = "a number of bytes, or one with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as 64MiB"
DURATION_FORMS: Final = "a number, or numbers with ms, s, m, h, d or w, such as 90s or 1h30m"

_NUMBER: Final = r"(\d+(?:_\d+)*(?:\.\d+)?|\.\d+)"
_SIZE: Final = re.compile(rf"{_NUMBER}\s*([a-z]*)", re.IGNORECASE)
_PART: Final = re.compile(rf"{_NUMBER}\s*(ms|min|[smhdw])\s*", re.IGNORECASE)
_DURATION: Final = re.compile(rf"(?:{_PART.pattern})+", re.IGNORECASE)


def bytes_of(text: str) -> int:
    """Return a number of bytes. Raises ``ValueError``."""
    found = _SIZE.fullmatch(text.strip())
    unit = SIZES.get((found[2] or "b").lower()) if found else None
    if found is None or unit is None:
        raise ValueError(f"{text!r}: must be {SIZE_FORMS}")
    size = Decimal(found[1]) * unit
    if size != size.to_integral_value() and not found[2]:
        raise ValueError(f"{text!r}: must be {SIZE_FORMS}")
    return int(size)


def seconds_of(text: str, unit_s: float = 1.0) -> float:
    """Return a duration in seconds; a plain number is in ``unit_s``. Raises ``ValueError``."""
    try:
        plain = float(text)
    except ValueError:
        if _DURATION.fullmatch(text.strip()) is None:
            raise ValueError(f"{text!r}: must be {DURATION_FORMS}") from None
        return sum(float(number) * SECONDS[unit.lower()] for number, unit in _PART.findall(text))
    if not math.isfinite(plain) or plain < 0:
        raise ValueError(f"{text!r}: must be {DURATION_FORMS}")
    return plain * unit_s


def size(low: int = 0, high: int | None = None) -> Callable[[str | int], int]:
    """Return the parser of an option for a size within bounds."""

    def parse(text: str | int) -> int:
        return _within(bytes_of(str(text)), low, high, text, "bytes")

    parse.__name__ = "SIZE"
    return parse


def duration(low: float = 0.0, high: float | None = None, *, unit_s: float = 1.0) -> Callable[[str | float], float]:
    """Return the parser of an option for a duration within bounds, in units of ``unit_s``."""

    def parse(text: str | float) -> float:
        return _within(seconds_of(str(text), unit_s) / unit_s, low, high, text, "s" if unit_s == 1 else "")

    parse.__name__ = "DURATION"
    return parse


def _within(value: N, low: N, high: N | None, text: object, unit: str) -> N:
    if value < low or (high is not None and value > high):
        bounds = f"{low} to {high}" if high is not None else f"at least {low}"
        raise ValueError(f"{text!r}: must be {bounds} {unit}".rstrip())
    return value
