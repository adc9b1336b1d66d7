"""Positions that went back with the broker, see also `tests/integration/test_restored_broker.py`."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from forebay.client.errors import PositionUnusable
from forebay.client.positions.position import PositionKey, SavedPosition
from forebay.client.positions.restores import check_restored
from forebay.client.positions.settings import ConsumerSettings
from forebay.client.values.records import DropReason, Gap

KEY = PositionKey("default", "billing", "orders", 0)
AT = datetime(2026, 11, 23, 12, tzinfo=UTC)
RESTORE = Gap(0, 100, 10_000, DropReason.RESTORED, AT)


def saved(offset: int, after_s: float) -> SavedPosition:
    return SavedPosition("i", offset, 1, "a", AT + timedelta(seconds=after_s))


@pytest.mark.parametrize(
    ("position", "restore", "events"),
    [
        (saved(50, -1), None, 0),
        (saved(50, 1), RESTORE, 0),
        (saved(100, -1), RESTORE, 0),
        (saved(50, -1), RESTORE, 1),
        (None, RESTORE, 1),
        (None, None, 0),
    ],
    ids=[
        "never restored",
        "saved since",
        "at the end of the backup",
        "before its end",
        "absent",
        "absent, not restored",
    ],
)
def test_a_position_from_before_the_restore_is_logged(
    position: SavedPosition | None, restore: Gap | None, events: int, caplog: pytest.LogCaptureFixture
) -> None:
    check_restored(KEY, position, restore, ConsumerSettings())

    assert [record.levelno for record in caplog.records] == [logging.WARNING] * events


@pytest.mark.parametrize(
    ("options", "is_error"), [({}, True), ({"on_misfit": "latest"}, True), ({"on_misfit": "earliest"}, False)]
)
def test_at_most_once_it_is_an_error_unless_the_policy_is_to_repeat(options: dict[str, Any], is_error: bool) -> None:
    settings = ConsumerSettings(guarantee="at_most_once", **options)
    if not is_error:
        check_restored(KEY, saved(50, -1), RESTORE, settings)
        return
    with pytest.raises(PositionUnusable, match="up to 99 may have been handed out"):
        check_restored(KEY, saved(50, -1), RESTORE, settings)
