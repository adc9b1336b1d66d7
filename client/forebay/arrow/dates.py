"""Text of dates and timestamps, over the whole range of their types, and the inverse.

Arrow formats the years -32767 to 32767. Spark's types reach further: a date to the year 5881580, a timestamp to the
year 294247, which is a usual value for "no end". The Gregorian calendar repeats itself every 400 years, so that a day
beyond is formatted as the same day of another cycle, with its own year.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

LOWEST_DAY: Final = -12_687_428
"""First day that Arrow formats, -32767-01-01, in days since 1970."""
HIGHEST_DAY: Final = 11_248_737
"""Last day that Arrow formats, 32767-12-31."""

_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
_DAY_0: Final = dt.date(1970, 1, 1).toordinal()
_DAY_S: Final = 86_400
_MICROSECONDS: Final = 1_000_000
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": _MICROSECONDS, "ns": 1_000_000_000}
_DATE: Final = re.compile(r"(-?\d{4,12})-(\d\d)-(\d\d)")


def date_text(dates: pa.Array) -> pa.Array:
    """Return ISO 8601 of every date; the text of a null is undefined."""
    is_days = pa.types.is_date32(dates.type)
    per_day = 1 if is_days else _DAY_S * _PER_SECOND["ms"]
    numbers = dates.view(pa.int32() if is_days else pa.int64())
    return _replaced(dates.cast(pa.string()), numbers, per_day, lambda number: _day_text(number // per_day))


def timestamp_text(timestamps: pa.Array) -> pa.Array:
    """Return ISO 8601 of every timestamp, with six digits and without a zone.

    The text of a null is undefined. The instant is taken for a UTC wall time first: formatting a type with a zone
    looks the zone up for every row.
    """
    kind = timestamps.type
    per_second = _PER_SECOND[kind.unit]
    wall = timestamps.cast(pa.timestamp("us", kind.tz), safe=False).view(pa.timestamp("us"))
    text = pc.replace_substring(wall.cast(pa.string()), " ", "T", max_replacements=1)
    numbers = timestamps.view(pa.int64())
    return _replaced(text, numbers, _DAY_S * per_second, lambda number: _instant_text(number, per_second))


def day_of(text: str) -> int:
    """Return the days since 1970 of a date in ISO 8601 with a year of any length. Raises ``ValueError``."""
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no date")
    cycles, year = divmod(int(found[1]), _CYCLE_YEARS)
    same = dt.date(2000 + year, int(found[2]), int(found[3]))
    return same.toordinal() - _DAY_0 + (cycles - 2000 // _CYCLE_YEARS) * _CYCLE_DAYS


def instant_of(text: str, kind: pa.TimestampType) -> int:
    """Return the number of a timestamp, in the unit of its type.

    ``text`` is that of `timestamp_text`, and may end in ``Z``. Raises ``ValueError``.
    """
    date, _, time = text.removesuffix("Z").partition("T")
    at = dt.time.fromisoformat(time)
    if at.tzinfo is not None:
        raise ValueError(f"{text!r} is not in UTC")
    seconds = (at.hour * 60 + at.minute) * 60 + at.second
    per_second = _PER_SECOND[kind.unit]
    return (day_of(date) * _DAY_S + seconds) * per_second + at.microsecond * per_second // _MICROSECONDS


def _replaced(texts: pa.Array, numbers: pa.Array, per_day: int, text_of: Callable[[int], str]) -> pa.Array:
    """Return the texts with those of the numbers that Arrow does not format."""
    low, end = LOWEST_DAY * per_day, (HIGHEST_DAY + 1) * per_day
    found = pc.min_max(numbers)
    least, most = found["min"].as_py(), found["max"].as_py()
    if least is None or (least >= low and most < end):
        return texts
    beyond = pc.fill_null(pc.or_(pc.less(numbers, low), pc.greater_equal(numbers, end)), False)
    each = numbers.filter(beyond).dictionary_encode()  # most of them are one value, such as the highest number
    own = pa.array([text_of(number) for number in each.dictionary.to_pylist()], pa.string())
    return pc.replace_with_mask(texts, beyond, own.take(each.indices))


def _instant_text(number: int, per_second: int) -> str:
    seconds, rest = divmod(number, per_second)
    days, second = divmod(seconds, _DAY_S)
    at = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"{_day_text(days)}T{at}.{rest * _MICROSECONDS // per_second:06d}"


def _day_text(days: int) -> str:
    cycles, rest = divmod(days, _CYCLE_DAYS)
    same = dt.date.fromordinal(_DAY_0 + rest)
    year = same.year + cycles * _CYCLE_YEARS
    return f"{'-' if year < 0 else ''}{abs(year):04d}-{same.month:02d}-{same.day:02d}"
