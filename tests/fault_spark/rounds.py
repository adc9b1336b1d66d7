"""Choice of the next process to kill: those that restart quickly more often than those that do not."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Literal

Victim = Literal["broker", "worker", "committer", "planner", "executor", "driver"]

WEIGHTS: Final[dict[Victim, float]] = {
    "broker": 42,
    "worker": 32,
    "committer": 12,
    "planner": 4,
    "executor": 6,
    "driver": 4,
}
"""A driver takes ten seconds or more to restart, an executor some seconds, the others almost none."""


@dataclass(frozen=True, slots=True)
class Round:
    """One kill."""

    victim: Victim

    after_progress: bool
    """Wait until Spark has called one more micro-batch committed."""

    life_s: float
    """Then wait so long."""

    away_s: float
    """Duration of an outage of a broker."""


def next_round(chance: random.Random, victim: Victim | None = None) -> Round:
    """Draw a round, of a kind if one is wanted."""
    [drawn] = chance.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))
    return Round(
        victim=victim or drawn,
        after_progress=chance.random() < 0.4,
        life_s=chance.uniform(0.0, 1.0),
        away_s=chance.choice([0.0, 0.0, chance.uniform(0.0, 2.0)]),
    )
