"""Sinks of a soak: every setting that affects retention, in random combinations.

A sink takes part in each dimension by itself. A dimension that this version's sinks do not have is left out, so the
table may name what other versions can do.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from forebay.client.values.sink_settings import SinkOptions
from tests.support.campaigns.consumers import Temper
from tests.support.campaigns.publishers import Habit

KIB: Final = 1 << 10
SOUGHT: Final = "again"
"""The second subscription of some sinks: it is moved now and then."""

KNOWN: Final = frozenset(SinkOptions.__annotations__)

DIMENSIONS: Final[Mapping[str, Sequence[Any]]] = {
    "overflow": ("REJECT", "DROP_OLDEST"),
    "ordering": ("STRICT", "RELAXED"),
    "partitions": (1, 1, 1, 2, 4),
    "buffer_mode": ("DISK", "DISK", "SPILL", "MEMORY"),
    "fsync": (True, True, True, False),
    "memory_cache_threshold": (256, 1_024),
    "max_disk_cache": (500, 2_000, 5_000),
    "max_age_s": (0.0, 0.0, 0.0, 0.0, 0.0, 20.0, 60.0),
    "retain_acked_bytes": (0, 0, 0, 64 * KIB, 1_024 * KIB),
    "retain_acked_time_s": (0.0, 0.0, 0.0, 0.0, 30.0),
    "resend_priority": (-1, 0, 1),
    "resend_interval_s": (0.0, 0.0, 0.0, 0.01),
    "relaxed_failures_max": (3, 10),
    "buffer_page_size": (64, 256),
    "realtime": (True, True, True, False),
}
"""Values to draw from, by the setting's name; a value listed twice is drawn twice as often."""

REASONS: Final[Mapping[str, Mapping[Any, frozenset[str]]]] = {
    "overflow": {"DROP_OLDEST": frozenset({"OVERFLOW"})},
    "buffer_mode": {"MEMORY": frozenset({"MEMORY_PRESSURE"})},
}
"""Why records may be dropped, by the setting and the value that allow it. An age allows ``EXPIRED``."""

GIVE_UP_S: Final = 45.0
"""A sink that rejects may be full for longer than that."""

HABITS: Final = (
    Habit("single", (100, 600), (1, 3), (0.2, 2.0), "keyed", delivery_timeout_s=GIVE_UP_S),
    Habit("keyed", (50, 400), (5, 30), (1.0, 6.0), "keyed", delivery_timeout_s=GIVE_UP_S),
    Habit("spread", (50, 1_000), (5, 40), (2.0, 10.0), "spread", delivery_timeout_s=GIVE_UP_S),
    Habit("many", (50, 1_000), (50, 200), (5.0, 20.0), "many", delivery_timeout_s=GIVE_UP_S),
    Habit("batch", (50, 500), (1, 30), (0.5, 4.0), "batch", delivery_timeout_s=GIVE_UP_S),
)
BULK: Final = Habit("bulk", (20_000, 40_000), (90, 150), (20.0, 60.0), "together", delivery_timeout_s=GIVE_UP_S)
BULK_RECORDS_MAX: Final = 400
"""Upper bound of such a sink: about 12 MB."""

BULK_EVERY: Final = 25
"""One sink in so many gets what makes files of their own."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One sink of a soak."""

    name: str
    options: Mapping[str, Any]
    reasons: frozenset[str]
    """Reasons for which its records may be dropped without an explicit request."""

    habit: Habit
    temper: Temper
    subscriptions: tuple[str, ...]
    """Beside ``default``."""

    @property
    def settings(self) -> SinkOptions:
        """The options as ``create`` takes them."""
        return cast(SinkOptions, dict(self.options))


def plan(number: int, chance: random.Random) -> Plan:
    """Draw a sink."""
    options: dict[str, Any] = {
        name: chance.choice(list(values)) for name, values in DIMENSIONS.items() if name in KNOWN
    }
    reasons: frozenset[str] = frozenset().union(
        *(allowed.get(options.get(name), frozenset()) for name, allowed in REASONS.items())
    )
    if options.get("max_age_s"):
        reasons |= {"EXPIRED"}
    is_bulk = number % BULK_EVERY == BULK_EVERY - 1
    options |= {
        "max_disk_cache": BULK_RECORDS_MAX if is_bulk else options["max_disk_cache"],
        "ack_deadline_s": chance.choice([5.0, 15.0]),
        "retry_backoff_min_s": 0.1,
        "retry_backoff_max_s": 3.0,
        "writer_ttl_s": 60.0,
        "staging_ttl_s": 60.0,
    }
    return Plan(
        name=f"soak-{number:03d}",
        options=options,
        reasons=reasons,
        habit=BULK if is_bulk else chance.choice(HABITS),
        temper=Temper(
            credit_records=chance.choice([50, 500, 2_000]),
            nack=chance.choice([0.0, 0.01, 0.05]),
            hold=0.002,
            die=0.002,
            pause_s=chance.choice([0.0, 0.0, 0.2]),
            take_s=2.0,
        ),
        subscriptions=(SOUGHT,) if chance.random() < 0.25 else (),
    )
