"""Sizes and durations as typed by users: ``64MiB``, ``10GB``, ``1h30m``, or a plain number.

A plain number is in the unit of the setting. The units of sizes are those of SI (kB, MB, GB, TB: powers of
1000) and of IEC (KiB, MiB, GiB, TiB: powers of 1024), in any case.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

SIZES: Final = {
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}
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
    unit_s = next((seconds for end, seconds in UNITS.items() if name.endswith(end)), None)
    is_size = "bytes" in name.split("_")
    if not is_size and (unit_s is None or name.endswith("_per_s")):
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
