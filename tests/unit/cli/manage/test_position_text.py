from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from forebay.cli.exits import ExitCode
from forebay.cli.manage.position_text import parse_position, position_text
from forebay.cli.report import CommandFailed
from forebay.cli.times import ZONE


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", "earliest"),
        (" latest ", "latest"),
        ("0", 0),
        ("12", 12),
        ("0=12,1=40", {0: 12, 1: 40}),
        ("2026-01-31T12:00:00+00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_a_place_is_read_as_it_is_typed(text: str, place: Any) -> None:
    assert parse_position(text) == place


@pytest.mark.parametrize("place", ["earliest", "latest", 7, {1: 2, 0: 1}, datetime(2026, 1, 31, 12, tzinfo=UTC)])
def test_a_place_is_parsed_as_it_was_shown(place: Any) -> None:
    assert parse_position(position_text(place)) == place


@pytest.mark.parametrize("text", ["", "first", "-1", "1=", "=", "1=a", "1=2,", "2026-31-01"])
def test_a_text_that_is_no_position_is_wrong_usage(text: str) -> None:
    with pytest.raises(CommandFailed, match="must be earliest") as failed:
        parse_position(text)

    assert failed.value.code is ExitCode.USAGE


def test_a_time_is_shown_as_in_tables() -> None:
    place = datetime(2026, 1, 31, 21, 0, 0, 123_456, tzinfo=timezone(timedelta(hours=9)))
    token = ZONE.set(UTC)
    try:
        shown = position_text(place)
    finally:
        ZONE.reset(token)

    assert shown == "2026-01-31 12:00:00Z"
