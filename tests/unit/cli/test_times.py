"""Times as typed and as shown: local, or in UTC on request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from forebay.cli.report import CommandFailed
from forebay.cli.times import ZONE, clock_text, parse_time, time_text

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    token = ZONE.set(None)
    yield
    ZONE.reset(token)
    monkeypatch.undo()
    time.tzset()


def test_a_time_without_a_zone_is_local() -> None:
    assert parse_time("2026-03-04T21:00") == NOW
    assert parse_time("2026-03-04 21:00") == NOW
    assert parse_time("2026-03-04T12:00Z") == NOW
    assert time_text(NOW) == "2026-03-04 21:00:00"
    assert clock_text(NOW) == "21:00:00"


def test_with_utc_it_is_in_utc_and_marked() -> None:
    ZONE.set(UTC)

    assert parse_time("2026-03-04T12:00") == NOW
    assert parse_time("2026-03-04T21:00+09:00") == NOW
    assert time_text(NOW) == "2026-03-04 12:00:00Z"
    assert clock_text(NOW) == "12:00:00Z"


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        *(("now", timedelta()), ("30m", timedelta(minutes=30)), ("-30m", timedelta(minutes=30))),
        *(("2d", timedelta(days=2)), ("1h30m", timedelta(minutes=90)), (" -1w ", timedelta(weeks=1))),
    ],
)
def test_a_duration_is_a_time_ago(text: str, ago: timedelta) -> None:
    assert parse_time(text, now=NOW) == NOW - ago


@pytest.mark.parametrize("text", ["", "12", "-12", "1.5", "yesterday", "2026-13-01", "--1h", "9999999w"])
def test_a_text_that_is_no_time_is_refused_with_the_allowed_forms(text: str) -> None:
    with pytest.raises(CommandFailed, match="must be a time \\(2026-01-31T12:00"):
        parse_time(text)


def test_a_time_that_the_zone_has_no_year_for_keeps_its_own() -> None:
    last = datetime.max.replace(tzinfo=UTC)

    assert parse_time("9999-12-31T23:59:59.999999Z") == last
    assert time_text(last) == "9999-12-31 23:59:59"


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_local_time_at_an_end_of_the_calendar_is_accepted(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()

    assert parse_time("9999-12-31T23:59:59").year == 9999
    assert parse_time("0001-01-01").year == 1
