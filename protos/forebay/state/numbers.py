"""Numbers as people read them: counts, bytes, durations and rates."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SECONDS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def count(number: float) -> str:
    """Return a count, with separators for thousands; from a million on in millions."""
    if number < 1_000_000:
        return f"{number:,.0f}"
    return f"{number / 1e9:,.2f} G" if number >= 1e9 else f"{number / 1e6:,.2f} M"


def plural(number: float, one: str, many: str | None = None) -> str:
    """Return the form of a noun that fits a number: ``one`` for 1, else ``many``, by default with an s."""
    if number == 1:
        return one
    return f"{one}s" if many is None else many


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return an exact number of things, such as ``1 record`` and ``2,000 records``."""
    return f"{number:,} {plural(number, one, many)}"


def size(number: float) -> str:
    """Return a number of bytes."""
    unit = 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number /= 1024
        unit += 1
    return f"{number:,.0f} {_UNITS[unit]}" if unit == 0 or number >= 100 else f"{number:,.1f} {_UNITS[unit]}"


def duration(seconds: float) -> str:
    """Return a duration, in its two largest units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.0f} s"
    for whole, unit, part, of in _SECONDS:
        if seconds >= whole:
            rest = int(seconds % whole // part)
            return f"{int(seconds // whole)} {unit}" + (f" {rest} {of}" if rest else "")
    return f"{seconds:.0f} s"


def rate(per_s: float) -> str:
    """Return records per second."""
    return f"{per_s:,.1f}/s" if 0 < per_s < 10 else f"{count(per_s)}/s"
