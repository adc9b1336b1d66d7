from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from forebay.client import InvalidPage
from forebay.client.values.convert import from_us, to_us


@pytest.mark.parametrize(
    "when",
    [
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 12, 30, 15, 123_456, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_a_time_comes_back_to_the_microsecond(when: datetime) -> None:
    assert from_us(to_us(when)) == when
    assert to_us(to_us(when)) == to_us(when)


@pytest.mark.parametrize("microseconds", [1_700_000_000_000_000_000, 2**63, -(2**63), -62_135_596_800_000_001])
def test_a_number_that_is_no_time_is_refused_before_it_is_stored(microseconds: int) -> None:
    with pytest.raises(InvalidPage, match="years 1 to 9999"):
        to_us(microseconds)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidPage, match="time zone"):
        to_us(datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake
