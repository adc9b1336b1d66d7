"""Table of the start of a consumer, computed by the function that decides it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from docs.generator.table import table
from forebay.client.errors import PositionUnusable
from forebay.client.positions.position import SavedPosition
from forebay.client.positions.start import Bounds, OnMisfit, SavedState, start_of, start_point
from forebay.client.values.subscriptions import Position

TIME: Final = datetime(2026, 1, 31, 12, tzinfo=UTC)
BOUNDS: Final = Bounds(partition=0, incarnation="now", earliest=10, end=20)
POINTS: Final[dict[str, Position | None]] = {
    "not set": None,
    "`earliest`": "earliest",
    "`latest`": "latest",
    "an offset": 12,
    "an offset that was trimmed": 4,
    "an offset ahead of the end": 30,
    "a time": TIME,
}
SAVED: Final = {
    SavedState.ABSENT.value: None,
    "absent, partition added": None,
    SavedState.PRESENT.value: ("now", 15),
    SavedState.TRIMMED.value: ("now", 4),
    SavedState.AHEAD.value: ("now", 30),
    SavedState.FOREIGN.value: ("former", 15),
}
NAMES: Final = {
    10: "earliest record",
    20: "end of the partition",
    12: "that offset",
    15: "saved position",
    TIME: "first record accepted then or later",
}


def markdown() -> str:
    """Return the table."""
    rows = [
        [
            "on" if checkpointing else "off",
            point,
            state,
            *_starts(
                start_point(POINTS[point], is_added=state.endswith("added")), SAVED[state], checkpointing=checkpointing
            ),
        ]
        for word, checkpointing in (("on", True), ("off", False))
        for point in POINTS
        for state in SAVED
    ]
    head = ["checkpointing", "`start`", "saved position", *(f"`on_misfit` `{policy}`" for policy in OnMisfit)]
    return table(head, rows)


def _starts(point: Position | None, found: tuple[str, int] | None, *, checkpointing: bool) -> list[str]:
    saved = None if found is None else SavedPosition(*found, epoch=1, owner="", saved_at=TIME)
    return [_start(point, saved, policy, checkpointing=checkpointing) for policy in OnMisfit]


def _start(point: Position | None, saved: SavedPosition | None, policy: OnMisfit, *, checkpointing: bool) -> str:
    try:
        start = start_of(point, saved, BOUNDS, checkpointing=checkpointing, on_misfit=policy)
    except PositionUnusable:
        return "`PositionUnusable`"
    return NAMES[start.at] + (", after a gap" if start.skipped is not None else "")
