"""The settings that a campaign tries, each with each, and what holds for a sink that has them.

A dimension is a setting, its values, and what each value allows to be lost. One that this version's sinks do not have
is left out. To add one, add its line to ``DIMENSIONS``: a cell may lose what any of its values allows, and nothing
else; a loss is always a gap that is reported and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, cast

from forebay.client.values.sink_settings import SinkOptions

SOUGHT: Final = "again"
"""The second subscription of every cell: it is moved back and forth."""

KNOWN: Final = frozenset(SinkOptions.__annotations__)
ACK_DEADLINE_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a setting."""

    may_lose: frozenset[str] = frozenset()
    """Reasons for which a sink with this value may drop records without a caller's request."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Additional settings of a sink with this value, or its settings if the value is only a name."""


KEPT: Final = Value()

DIMENSIONS: Final[Mapping[str, Mapping[str, Value]]] = {
    "overflow": {
        "REJECT": Value(options={"partitions": 4}),
        "DROP_OLDEST": Value(frozenset({"OVERFLOW"}), {"partitions": 2, "max_disk_cache": 2_000}),
    },
    "ordering": {"STRICT": KEPT, "RELAXED": KEPT},
    "buffer_mode": {
        "DISK": KEPT,
        "SPILL": Value(frozenset({"LOST_IN_CRASH"}), {"memory_cache_threshold": 3_000}),
        "VOLATILE": Value(
            frozenset({"WIPED_AT_START"}), {"buffer_mode": "SPILL", "volatile": True, "memory_cache_threshold": 1_000}
        ),
        "MEMORY": Value(frozenset({"LOST_IN_CRASH", "CLEANED_AT_STOP"}), {"memory_cache_threshold": 2_000}),
    },
}
"""By setting and value. A threshold is passed now and then; from then on all is written until readers catch up."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One sink of a campaign."""

    name: str
    partitions: int
    reasons: frozenset[str]
    """Reasons for which its records may be dropped without a caller's request."""

    in_order: bool
    """Records are delivered first in the order in which they stand."""

    settings: SinkOptions
    hold_s: float = ACK_DEADLINE_S * 1.5
    """Delay that exceeds a deadline."""


def cells() -> Iterator[Cell]:
    """All combinations; the first is the one that promises most."""
    known = {name: values for name, values in DIMENSIONS.items() if name in KNOWN}
    for chosen in product(*known.values()):
        values = [known[name][value] for name, value in zip(known, chosen, strict=True)]
        options: dict[str, Any] = dict(zip(known, chosen, strict=True))
        for value in values:
            options |= value.options
        yield Cell(
            name="-".join(value.lower().replace("_", "-") for value in chosen),
            partitions=options["partitions"],
            reasons=frozenset().union(*(value.may_lose for value in values)),
            in_order=options["ordering"] == "STRICT",
            settings=cast(
                SinkOptions,
                {
                    **options,
                    "retry_backoff_min_s": 0.01,
                    "retry_backoff_max_s": 0.1,
                    "ack_deadline_s": ACK_DEADLINE_S,
                },
            ),
        )
