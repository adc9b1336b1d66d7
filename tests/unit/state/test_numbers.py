"""Numbers are short, and their units are named."""

from __future__ import annotations

import pytest

from forebay.state.numbers import count, counted, duration, plural, rate, size


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999_999, "999,999"), (1_250_000, "1.25 M"), (3_000_000_000, "3.00 G")]
)
def test_counts(number: float, text: str) -> None:
    assert count(number) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 records"), (1, "1 record"), (2_000_000, "2,000,000 records")])
def test_a_noun_fits_its_number(number: int, text: str) -> None:
    assert counted(number, "record") == text


@pytest.mark.parametrize(("number", "noun"), [(0, "deliveries"), (1, "delivery"), (2, "deliveries")])
def test_an_irregular_plural_is_given(number: int, noun: str) -> None:
    assert plural(number, "delivery", "deliveries") == noun


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (200 << 20, "200 MiB"), (5 << 60, "5,120 PiB")],
)
def test_sizes(number: float, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "12 ms"),
        (59.4, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (7_260, "2 h 1 min"),
        (90_000, "1 d 1 h"),
        (86_400 * 400, "400 d"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("per_s", "text"), [(0, "0/s"), (0.25, "0.2/s"), (9.94, "9.9/s"), (12_000, "12,000/s")])
def test_rates(per_s: float, text: str) -> None:
    assert rate(per_s) == text
