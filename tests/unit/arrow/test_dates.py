"""Every date and timestamp has a text, which names it and no other."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.arrow.dates import HIGHEST_DAY, LOWEST_DAY, date_text, day_of, instant_of, timestamp_text

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def dates(numbers: list[int | None], kind: pa.DataType | None = None) -> list[Any]:
    found: list[Any] = date_text(pa.array(numbers, kind or pa.date32())).to_pylist()
    return found


@pytest.mark.parametrize(
    ("day", "text"),
    [
        (LOWEST_DAY, "-32767-01-01"),
        (LOWEST_DAY - 1, "-32768-12-31"),
        (HIGHEST_DAY, "32767-12-31"),
        (HIGHEST_DAY + 1, "32768-01-01"),
        (HIGHEST_DAY + 60, "32768-02-29"),
        ((1 << 31) - 1, "5881580-07-11"),
        (-(1 << 31), "-5877641-06-23"),
    ],
)
def test_a_day_beyond_arrows_range_has_the_form_of_those_within(day: int, text: str) -> None:
    assert dates([day, 0, None, day]) == [text, "1970-01-01", None, text]
    assert dates([day * 86_400_000], pa.date64()) == [text]
    assert day_of(text) == day


@given(INT32)
def test_a_day_is_read_back_from_its_text(day: int) -> None:
    assert day_of(dates([day])[0]) == day


@given(st.integers(0, HIGHEST_DAY))
def test_a_day_beyond_arrows_range_is_that_of_a_cycle_within(day: int) -> None:
    within, beyond = dates([day, day + 100 * 146_097])

    year, month_and_day = within[:-6], within[-6:]
    assert beyond == f"{int(year) + 40_000}{month_and_day}"


@given(st.lists(st.none() | INT64, max_size=9), st.sampled_from(["s", "ms", "us"]))
def test_an_instant_is_read_back_from_its_text(numbers: list[int | None], unit: str) -> None:
    kind = pa.timestamp(unit)

    for number, text in zip(numbers, timestamp_text(pa.array(numbers, kind)).to_pylist(), strict=True):
        if number is not None:
            assert instant_of(text, kind) == instant_of(text + "Z", kind) == number


def test_a_slice_has_the_texts_of_its_own_rows() -> None:
    numbers = pa.array([(1 << 63) - 1, 0, (1 << 63) - 1, None], pa.timestamp("us", "UTC"))

    assert timestamp_text(numbers.slice(1, 2)).to_pylist() == [
        "1970-01-01T00:00:00.000000",
        "294247-01-10T04:00:54.775807",
    ]


@pytest.mark.parametrize("text", ["", "2026", "2026-13-01", "32769-02-29", "+10000-01-01", "10000-1-1", "1e4-01-01"])
def test_a_text_that_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - Python's own text, or ours
        day_of(text)
