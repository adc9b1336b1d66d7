"""Result of a campaign against Spark, as one JSON object: the last line of its output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

FATAL: Final = ("lost", "doubled", "foreign", "torn_epochs", "forgotten", "faults")


@dataclass(frozen=True, slots=True)
class Report:
    """The figures. Everything named in ``FATAL`` has to be 0."""

    kills: Mapping[str, int]
    """Processes ended by SIGKILL, by what they were, and all together."""

    rows: int
    """Rows of the source, which are to be in the sink."""

    lost: int
    """Of these the ones that are not there."""

    doubled: int
    """Records beyond the first of a row."""

    foreign: int
    """Records that are no row of the source."""

    torn_epochs: int
    """Micro-batches that were not whole, at the end or in any look of the reader."""

    forgotten: int
    """Micro-batches that Spark had called committed and that a later look did not see."""

    faults: int
    """Processes that ended as they should not, accounts that do not balance, what stays staged."""

    batches: int
    """Micro-batches."""

    looks: int
    """Number of times that the reader saw all partitions."""

    query_failures: Mapping[str, int]
    """Failures of queries that were restarted, by error."""

    elapsed_s: float
    seed: int

    @property
    def ok(self) -> bool:
        """True if every guarantee held."""
        return not any(getattr(self, name) for name in FATAL)

    def line(self) -> str:
        """The report on one line."""
        return json.dumps(asdict(self))
