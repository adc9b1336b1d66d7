"""Sizes and durations as typed: units of SI and IEC, plain numbers, and clear errors."""

from __future__ import annotations

import pytest

from forebay.cli.quantities import bytes_of, duration, seconds_of, size


@pytest.mark.parametrize(
    ("text", "count"),
    [
        *(("0", 0), ("1048576", 1 << 20), ("1_000", 1000), (" 12 ", 12), ("5B", 5)),
        *(("10GB", 10 * 1000**3), ("10 gb", 10 * 1000**3), ("3kB", 3000), ("1TB", 1000**4)),
        *(("64MiB", 64 << 20), ("1.5GiB", 3 << 29), ("4KiB", 4096), ("1tib", 1 << 40), (".5MB", 500_000)),
    ],
)
def test_a_size_is_a_number_with_a_unit_or_bytes(text: str, count: int) -> None:
    assert bytes_of(text) == count


@pytest.mark.parametrize("text", ["", "x", "10G", "10 bits", "-1", "1.5", "MiB", "1e6", "10GB5", "nan"])
def test_a_size_that_is_none_says_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number of bytes, or one with B, kB"):
        bytes_of(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("0", 0), ("30", 30), ("0.5", 0.5), ("1e3", 1000), ("90s", 90), ("250ms", 0.25), ("2m", 120)),
        *(("2min", 120), ("1h", 3600), ("1h30m", 5400), ("1d 12h", 129_600), ("2W", 1_209_600), ("1.5 h", 5400)),
    ],
)
def test_a_duration_is_numbers_with_units_or_seconds(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "x", "-1", "-30m", "1y", "h", "1h30", "inf", "nan"])
def test_a_duration_that_is_none_says_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number, or numbers with ms, s, m, h, d or w"):
        seconds_of(text)


def test_options_keep_their_unit_and_their_bounds() -> None:
    assert duration(unit_s=0.001)("2s") == 2000
    assert duration(unit_s=0.001)("250") == 250
    assert duration(unit_s=86_400)("12h") == 0.5
    assert size(1, 1 << 20)("1MiB") == 1 << 20
    with pytest.raises(ValueError, match="'2MiB': must be 1 to 1048576 bytes"):
        size(1, 1 << 20)("2MiB")
    with pytest.raises(ValueError, match="'0': must be at least 1 bytes"):
        size(1)("0")
    with pytest.raises(ValueError, match=r"'2h': must be 0\.1 to 3600 s"):
        duration(0.1, 3600)("2h")
