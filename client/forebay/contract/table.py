"""Table of all checks, in the order in which they run."""

from __future__ import annotations

from typing import Final

from forebay.contract.check import Check
from forebay.contract.checks import (
    dead_letters,
    delivery,
    epochs,
    limits,
    positions,
    publish,
    reflection,
    replay,
    requests,
    resends,
    sinks,
)

CHECKS: Final[tuple[Check, ...]] = (
    *reflection.CHECKS,
    *sinks.CHECKS,
    *requests.CHECKS,
    *limits.CHECKS,
    *publish.CHECKS,
    *delivery.CHECKS,
    *replay.CHECKS,
    *epochs.CHECKS,
    *dead_letters.CHECKS,
    *resends.CHECKS,
    *positions.CHECKS,
)
"""Checks of the contract."""

AREAS: Final = tuple(dict.fromkeys(check.area for check in CHECKS))
"""Parts of the contract."""
