"""Sizes and durations as typed by users: ``64MiB``, ``10GB``, ``1h30m``, or a plain number.

A plain number is in the unit of the setting. The units of sizes are those of SI (kB, MB, GB, TB: powers of
1000) and of IEC (KiB, MiB, GiB, TiB: powers of 1024), in any case.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

_NAMED: Final = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}
"""Bytes by unit."""

SIZES: Final = {unit.lower(): size for unit, size in _NAMED.items()}
"""Bytes by unit, in lower case."""

SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
"""Seconds by unit."""

UNITS: Final = {"_ms": SECONDS["ms"], "_s": SECONDS["s"], "_days": SECONDS["d"]}
"""Seconds of the unit of a setting, by the end of its name."""

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
    if 0 < size < 1:  # 0 is another setting: no limit, or none at all
        raise ValueError(f"{text!r}: is less than one byte; must be {SIZE_FORMS}")
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


def plain(name: str, text: str) -> str:
    """Return the text of a setting as a number in the unit of its name; unchanged if the name has no unit.

    The unit is bytes for ``..._bytes...``, otherwise the end of the name: ``_ms``, ``_s`` or ``_days``. A plain number
    stays as it is. Raises ``ValueError``.
    """
    is_size, unit_s = _kind(name)
    if not is_size and unit_s is None:
        return text
    try:
        float(text)
    except ValueError:
        if is_size or unit_s is None:
            return str(bytes_of(text))
        exact = seconds_of(text) / unit_s
        value = round(exact, 9)
        if exact and not value:  # 0 is another setting: no limit, or none at all
            raise ValueError(f"{text!r}: is too short; must be {DURATION_FORMS}") from None
        return str(int(value) if value.is_integer() else value)
    return text


def with_unit(name: str, value: float) -> str:
    """Return a setting as users type it: ``10GB``, ``1h30m``; the inverse of `plain`.

    It is exact. A value of a setting without a unit, and one that no unit fits, is the plain number.
    """
    is_size, unit_s = _kind(name)
    if is_size:
        return size_text(int(value))
    return str(value) if unit_s is None else duration_text(value, unit_s)


def size_text(size: int) -> str:
    """Return an exact size with the unit that needs the smallest number: ``64MiB``, ``10GB``, ``1500B``."""
    fitting = {unit: size // each for unit, each in _NAMED.items() if size and size % each == 0}
    unit = min(fitting, key=lambda one: fitting[one], default="")
    return f"{fitting[unit]}{unit}" if unit else "0"


def duration_text(number: float, unit_s: float = 1.0) -> str:
    """Return an exact duration with units: ``1h30m``, ``2.5s``, ``100ms``; ``number`` is in ``unit_s``."""
    left_s = Decimal(str(number)) * Decimal(str(unit_s))
    if not left_s.is_finite() or left_s < 0:
        return str(number)
    if 0 < left_s < 1:
        return f"{(left_s * 1000).normalize():f}ms"
    text = ""
    for unit in ("d", "h", "m"):
        count, left_s = divmod(left_s, Decimal(str(SECONDS[unit])))
        text += f"{count:f}{unit}" if count else ""
    return text + (f"{left_s.normalize():f}s" if left_s else "") or "0"


def _kind(name: str) -> tuple[bool, float | None]:
    """Return whether a setting is a size, and the seconds of its unit if it is a duration."""
    if "bytes" in name.split("_"):
        return True, None
    unit_s = next((seconds for end, seconds in UNITS.items() if name.endswith(end)), None)
    return False, None if name.endswith("_per_s") else unit_s
