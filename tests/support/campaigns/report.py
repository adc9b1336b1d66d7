"""Result of a campaign, as one JSON object: the last line of its output."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

FATAL: Final = ("lost", "skipped", "duplicates", "disorder", "identity_broken", "acks_forgotten", "faults")


@dataclass(frozen=True, slots=True)
class Report:
    """The figures. Everything named in ``FATAL`` has to be 0."""

    kills: int
    """Brokers ended by SIGKILL."""

    kills_while_starting: int
    """Of these, the ones that had not come to serve."""

    stops: int
    """Brokers that were asked to stop on the way, and did."""

    acknowledged: int
    """Records with a receipt."""

    lost: int
    """Acknowledged records that are not where their receipt says."""

    skipped: int
    """Offsets that count as settled, or were passed over, without a consumer having had them."""

    duplicates: int
    """Records that are stored at two offsets."""

    disorder: int
    """Records of one source that stand, or were first delivered, in another order than they were sent in."""

    identity_broken: int
    """Accounts that did not balance."""

    acks_forgotten: int
    """Records that were delivered again after their ack was answered OK."""

    faults: int
    """Processes, publishers or consumers that ended as they should not."""

    delivered: int
    """Offsets delivered at least once."""

    redelivered: int
    """Deliveries beyond the first: allowed for what was not acked, counted here."""

    dropped: int
    """Records dropped unsettled, by all sinks."""

    gaps: int
    """Offsets that were reported to consumers as gaps."""

    given_up: int
    """Records whose publisher does not know what became of them."""

    purges: int
    """Purges that took something."""

    seeks: int
    """Seeks that are known to have been done."""

    dead_letters: Mapping[str, int]
    """Result of the sink whose target rejects some records permanently."""

    shard: Mapping[str, int]
    """Figures of a shard: starts on empty directories, and checkpoints; empty for one broker alone."""

    cells: Mapping[str, Mapping[str, int]]
    """Result of each cell of the matrix, by the name of its sink."""

    elapsed_s: float
    seed: int

    @property
    def ok(self) -> bool:
        """True if every guarantee held."""
        return not any(getattr(self, name) for name in FATAL)

    def line(self) -> str:
        """The report on one line."""
        return json.dumps(asdict(self))


def total(counters: Iterable[Counter[str]]) -> dict[str, int]:
    """The violations of several oracles, every kind named."""
    found: Counter[str] = Counter()
    for one in counters:
        found.update(one)
    return {name: found[name] for name in FATAL}
