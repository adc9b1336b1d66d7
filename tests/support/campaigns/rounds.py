"""Ends of a broker: usually a kill at work, sometimes at start or stop, and rarely an orderly stop."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Literal

STOPS: Final = 0.08
"""Of the lives at work, those that end by a clean stop: what that does to a sink is not what a kill does."""
KILLED_STOPPING: Final = 0.04


@dataclass(frozen=True, slots=True)
class Round:
    """The life of one broker."""

    life_s: float
    """From when it serves, or from its start, to its kill."""

    while_starting: bool
    """Kill it before it serves, if it has not come to that."""

    replays: bool
    """Read one partition of each sink again, and compare."""

    ending: Literal["kill", "stop", "kill while stopping"] = "kill"
    grace_s: float = 0.0
    """From when it is asked to stop to its kill."""


def next_round(chance: random.Random) -> Round:
    """Draw a life."""
    kind = chance.random()
    if kind < 0.10:
        return Round(chance.uniform(0.0, 0.08), while_starting=True, replays=False)
    if kind < 0.15:
        return Round(chance.uniform(0.0, 0.02), while_starting=False, replays=False)
    if kind < 0.18:
        return Round(chance.uniform(0.8, 2.0), while_starting=False, replays=True)
    life_s, replays, ending = chance.uniform(0.02, 0.25), chance.random() < 0.15, chance.random()
    if ending < STOPS:
        return Round(life_s, while_starting=False, replays=replays, ending="stop")
    if ending < STOPS + KILLED_STOPPING:
        grace_s = chance.uniform(0.0, 0.1)
        return Round(life_s, while_starting=False, replays=replays, ending="kill while stopping", grace_s=grace_s)
    return Round(life_s, while_starting=False, replays=replays)
