"""Plan of the failures in the demo.

It is made before the run, from the settings and a seed, so that a run can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final

BROKER_DOWN_S: Final = 1.5
"""Time between a kill of the broker and its restart, as with a supervisor."""


class Action(StrEnum):
    """Action on a process."""

    STOP_TARGET = "the remote system is stopped"
    START_TARGET = "the remote system is started again"
    KILL_BROKER = "the broker is killed (-9)"
    START_BROKER = "the broker is started again on the same directory"


@dataclass(frozen=True, slots=True)
class Step:
    """Action with its time."""

    at_s: float
    """Seconds after the flow was steady."""

    action: Action
    """Action to take."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """Settings of the demo."""

    inputs: tuple[Path, ...] = ()
    """Files to send; empty: live readings of this machine."""

    outage_s: float = 15.0
    """Duration of the remote system's outage; 0 for none."""

    kills: int = 2
    """Number of kills of the broker."""

    warm_up_s: float = 4.0
    """Undisturbed flow before the first failure."""

    calm_s: float = 2.0
    """Undisturbed flow after the last failure, before the source ends."""

    aftermath_s: float = 6.0
    """Time after the target's return in which the broker is still killed, during the redelivery."""

    spark: bool = True
    """Write with Spark; otherwise with a Python publisher."""

    partitions: int = 4
    """Partitions of the sink."""

    drain_s: float = 180.0
    """Time limit for the delivery of the backlog after the source has ended."""

    seed: int = 0
    """Seed of the times of the kills."""


def plan(settings: DemoSettings) -> tuple[Step, ...]:
    """Return the steps by time.

    Kills are spread over the outage and the time after it, at least one restart apart.
    """
    random = Random(settings.seed)
    away = settings.warm_up_s
    back = away + settings.outage_s
    steps = []
    if settings.outage_s > 0:
        steps += [Step(away, Action.STOP_TARGET), Step(back, Action.START_TARGET)]
    if settings.kills:
        slot = max((settings.outage_s + settings.aftermath_s) / settings.kills, 2 * BROKER_DOWN_S)
        for number in range(settings.kills):
            at = away + slot * number + random.uniform(0.2, 0.8) * (slot - BROKER_DOWN_S)
            steps += [Step(at, Action.KILL_BROKER), Step(at + BROKER_DOWN_S, Action.START_BROKER)]
    return tuple(sorted(steps, key=lambda step: step.at_s))


def duration_s(settings: DemoSettings, steps: tuple[Step, ...]) -> float:
    """Return the seconds for which the source must continue once the flow is steady."""
    return max([settings.warm_up_s, *(step.at_s for step in steps)]) + settings.calm_s
