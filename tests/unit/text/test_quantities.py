"""Sizes and durations as typed: units of SI and IEC, plain numbers, and clear errors."""

from __future__ import annotations

import pytest

from forebay.text.quantities import bytes_of, duration_text, plain, seconds_of, size_text, with_unit


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


@pytest.mark.parametrize("text", ["0.0001kB", "0.5B", ".0009 KiB"])
def test_a_part_of_a_byte_is_not_zero(text: str) -> None:
    with pytest.raises(ValueError, match="is less than one byte"):
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


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        *(
            ("max_total_bytes", "10GB", "10000000000"),
            ("tail_bytes_max", "1MiB", "1048576"),
            ("bytes_per_s", "3kB", "3000"),
        ),
        *(("max_age_s", "7d", "604800"), ("timeout_s", "250ms", "0.25"), ("linger_ms", "2s", "2000")),
        *(("linger_ms", "2ms", "2"), ("keep_days", "36h", "1.5")),
        *(("max_age_s", "60", "60"), ("max_total_bytes", "1_000", "1_000"), ("drain_s", "-1", "-1")),
        *(("overflow", "1h", "1h"), ("calls_per_s", "1h", "1h"), ("partitions", "4", "4")),
    ],
)
def test_a_setting_is_a_number_in_the_unit_of_its_name(name: str, text: str, number: str) -> None:
    assert plain(name, text) == number


@pytest.mark.parametrize(
    ("name", "text"), [("max_age_s", "7 apples"), ("max_total_bytes", "10G"), ("linger_ms", "-2s")]
)
def test_a_setting_that_is_no_quantity_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}': must be a number"):
        plain(name, text)


@pytest.mark.parametrize(("name", "text"), [("retention_days", "0.00001ms"), ("linger_ms", "0.0000000000001s")])
def test_a_duration_that_would_be_rounded_to_zero_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match="is too short"):
        plain(name, text)

    assert plain(name, "0s") == "0"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        *((0, "0"), (1, "1B"), (1500, "1500B"), (3000, "3kB"), (4096, "4KiB"), (64 << 20, "64MiB")),
        *((10 * 1000**3, "10GB"), (1000 * 1024, "1000KiB"), (1 << 40, "1TiB"), (1000**4, "1TB")),
    ],
)
def test_a_size_is_shown_exactly_with_the_unit_of_the_smallest_number(size: int, text: str) -> None:
    assert size_text(size) == text
    assert bytes_of(text) == size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "0"), (0.1, "100ms"), (0.0005, "0.5ms"), (2.5, "2.5s"), (30.0, "30s"), (90, "1m30s"), (3600, "1h")),
        *((5400, "1h30m"), (86_400.0, "1d"), (604_800, "7d"), (1.0001, "1.0001s")),
    ],
)
def test_a_duration_is_shown_exactly_with_its_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
    assert seconds_of(text) == pytest.approx(seconds, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        *(("max_total_bytes", 10_000_000_000, "10GB"), ("max_age_s", 604_800.0, "7d"), ("linger_ms", 2000, "2s")),
        *(("keep_days", 1.5, "1d12h"), ("partitions", 86_400, "86400"), ("calls_per_s", 3000, "3000")),
        *(("bytes_per_s", 3000, "3kB"), ("retry_backoff_factor", 2.0, "2.0")),
    ],
)
def test_a_setting_is_shown_as_it_can_be_typed(name: str, value: float, text: str) -> None:
    assert with_unit(name, value) == text
    assert float(plain(name, text)) == value


@pytest.mark.parametrize("seconds", [float("inf"), -1.0])
def test_a_number_that_is_no_duration_stays_a_number(seconds: float) -> None:
    assert duration_text(seconds) == str(seconds)
