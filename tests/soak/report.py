"""Result of a soak, as one JSON object: the last line of its output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

GROWTH_MAX: Final = 0.05
"""Maximum growth of private memory from the third quarter to the last."""

DISK_MAX: Final = 0.10
"""Part of what the load took of the disk at its peak that may be left when all is acked."""

JUDGED_S: Final = 600.0
"""A shorter soak is still warming up: its memory is reported, but not judged."""


@dataclass(frozen=True, slots=True)
class Report:
    """The figures and verdicts."""

    minutes: float
    """Of load."""

    sinks: int
    seed: int
    broker_processors: float
    """Parts of one processor that the broker used under load."""

    memory_private_mib: Mapping[str, float]
    """Private memory: first sample, median of the third and fourth quarter, at the peak, and at the end."""

    memory_resident_mib: Mapping[str, float]
    memory_growth: float
    """Private memory of the fourth quarter over the third, less 1."""

    disk_mib: Mapping[str, float]
    """``empty`` with all sinks made, at the ``peak``, at the ``end``; the log, which has a bound of its own, apart."""

    disk_left: float
    """Size of the store at the end, relative to its peak, both above the empty store and without the log."""

    open_files: Mapping[str, int]
    answers_ms: Mapping[str, float]
    """A call that the broker's loop answers from memory."""

    acknowledged: int
    delivered: int
    redelivered: int
    dropped: int
    """Records of default subscriptions, dropped for a reason that their sink allows."""

    outages: int
    refused: int
    purges: int
    purged: int
    seeks: int
    violations: Mapping[str, int]
    """By kind, as ``tests.support.campaigns.report`` names them."""

    elapsed_s: float

    @property
    def verdicts(self) -> dict[str, bool | None]:
        """Checked conditions; ``None`` where the soak was too short."""
        return {
            "nothing_lost": not any(self.violations.values()),
            "memory_flat": self.memory_growth <= GROWTH_MAX if self.minutes * 60 >= JUDGED_S else None,
            "disk_returned": self.disk_left <= DISK_MAX,
        }

    @property
    def ok(self) -> bool:
        """True if every guarantee held."""
        return all(verdict is not False for verdict in self.verdicts.values())

    def line(self) -> str:
        """The report on one line."""
        return json.dumps({**asdict(self), "verdicts": self.verdicts, "ok": self.ok})
