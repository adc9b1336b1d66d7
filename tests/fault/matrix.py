"""The settings that a campaign tries, each with each, and what holds for a sink that has them.

A dimension is a setting, its values, and what a value allows to be lost. One that this version's sinks do not have
is left out. To add one, add its line to ``DIMENSIONS``: a cell may lose what any of its values allows, and nothing
else; what is lost is always a gap that is told and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, cast

from holdfast.client.sink_values import SinkOptions

SOUGHT: Final = "again"
"""The second subscription of every cell: it is moved back and forth."""

KNOWN: Final = frozenset(SinkOptions.__annotations__)
NOTHING: Final[frozenset[str]] = frozenset()

DIMENSIONS: Final[Mapping[str, Mapping[Any, frozenset[str]]]] = {
    "overflow": {"REJECT": NOTHING, "DROP_OLDEST": frozenset({"OVERFLOW"})},
    "ordering": {"STRICT": NOTHING, "RELAXED": NOTHING},
}
"""By setting and value the reasons for which its records may be dropped."""

ACK_DEADLINE_S: Final = 0.5
DROPS_RECORDS_MAX: Final = 2_000
PARTITIONS: Final = {"REJECT": 4, "DROP_OLDEST": 2}


@dataclass(frozen=True, slots=True)
class Cell:
    """One sink of a campaign."""

    name: str
    partitions: int
    reasons: frozenset[str]
    """Why its records may be dropped without anybody having asked for it."""

    in_order: bool
    """Records are delivered first in the order in which they stand."""

    settings: SinkOptions
    hold_s: float = ACK_DEADLINE_S * 1.5
    """How long is longer than a deadline."""


def cells() -> Iterator[Cell]:
    """All combinations; the first is the one that promises most."""
    known = {name: values for name, values in DIMENSIONS.items() if name in KNOWN}
    for chosen in product(*known.values()):
        options: dict[str, Any] = dict(zip(known, chosen, strict=True))
        partitions = PARTITIONS[options["overflow"]]
        if options["overflow"] == "DROP_OLDEST":
            options["max_disk_cache"] = DROPS_RECORDS_MAX
        yield Cell(
            name="-".join(str(value).lower().replace("_", "-") for value in chosen),
            partitions=partitions,
            reasons=NOTHING.union(*(known[name][value] for name, value in zip(known, chosen, strict=True))),
            in_order=options["ordering"] == "STRICT",
            settings=cast(
                SinkOptions,
                {
                    **options,
                    "partitions": partitions,
                    "retry_backoff_min_s": 0.01,
                    "retry_backoff_max_s": 0.1,
                    "ack_deadline_s": ACK_DEADLINE_S,
                },
            ),
        )
