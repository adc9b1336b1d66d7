"""When a broker is killed: most often at work, sometimes while it starts, now and then after a longer life."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Round:
    """The life of one broker."""

    life_s: float
    """From when it serves, or from its start, to its kill."""

    while_starting: bool
    """Kill it before it serves, if it has not come to that."""

    replays: bool
    """Read one partition of each sink again, and compare."""


def next_round(chance: random.Random) -> Round:
    """Draw a life."""
    kind = chance.random()
    if kind < 0.10:
        return Round(chance.uniform(0.0, 0.08), while_starting=True, replays=False)
    if kind < 0.15:
        return Round(chance.uniform(0.0, 0.02), while_starting=False, replays=False)
    if kind < 0.18:
        return Round(chance.uniform(0.8, 2.0), while_starting=False, replays=True)
    return Round(chance.uniform(0.02, 0.25), while_starting=False, replays=chance.random() < 0.15)
