"""What goes wrong in the demo, and when.

Decided before the run, from the settings and a seed, so that a run can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final

BROKER_AWAY_S: Final = 1.5
"""Between the kill of the broker and its restart, as a supervisor would take."""

AFTERMATH_S: Final = 6.0
"""How long after the target's return brokers are still killed: while the backlog is being resent."""


class Action(StrEnum):
    """One thing that happens to a process."""

    STOP_TARGET = "the remote system goes away"
    START_TARGET = "the remote system is back"
    KILL_BROKER = "the broker is killed (-9)"
    START_BROKER = "the broker is started again on the same directory"


@dataclass(frozen=True, slots=True)
class Step:
    """An action and its time."""

    at_s: float
    """Seconds after the flow was steady."""

    action: Action
    """What happens."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What a user may choose."""

    inputs: tuple[Path, ...] = ()
    """Files to send; none: live readings of this machine."""

    outage_s: float = 15.0
    """How long the remote system is away; 0: not at all."""

    kills: int = 2
    """How often the broker is killed."""

    warm_up_s: float = 4.0
    """Undisturbed flow before the first thing goes wrong."""

    calm_s: float = 2.0
    """Undisturbed flow after the last one, before the source ends."""

    partitions: int = 4
    """Partitions of the sink."""

    drain_s: float = 180.0
    """How long the backlog may take to arrive after the source has ended."""

    seed: int = 0
    """Moves the kills about."""


def plan(settings: DemoSettings) -> tuple[Step, ...]:
    """The steps by time. Kills are spread over the outage and its aftermath; two are never closer than a
    restart.
    """
    random = Random(settings.seed)
    away = settings.warm_up_s
    back = away + settings.outage_s
    steps = []
    if settings.outage_s > 0:
        steps += [Step(away, Action.STOP_TARGET), Step(back, Action.START_TARGET)]
    if settings.kills:
        slot = max((settings.outage_s + AFTERMATH_S) / settings.kills, 2 * BROKER_AWAY_S)
        for number in range(settings.kills):
            at = away + slot * number + random.uniform(0.2, 0.8) * (slot - BROKER_AWAY_S)
            steps += [Step(at, Action.KILL_BROKER), Step(at + BROKER_AWAY_S, Action.START_BROKER)]
    return tuple(sorted(steps, key=lambda step: step.at_s))


def duration_s(settings: DemoSettings, steps: tuple[Step, ...]) -> float:
    """Seconds for which the source has to go on once the flow is steady."""
    return max([settings.warm_up_s, *(step.at_s for step in steps)]) + settings.calm_s
