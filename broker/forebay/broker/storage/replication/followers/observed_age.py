"""Age clock of an owner as a follower has read it.

The owner stores its age clock with the clocks of its machine, and the wall clock of another machine may differ from
them by hours. A follower reads each reading soon after it was stored, so its own clock measures the time since then. It
measures no more than has passed: nothing expires early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forebay.broker.core.writes import PutAge
from forebay.broker.storage.records.store import AGE
from forebay.broker.storage.store.contract import Operation, Put


@dataclass(frozen=True, slots=True)
class ObservedAge:
    """Reading of an owner's age clock, and the time at which it was read from the journal."""

    age_us: int
    at_us: int
    """Clock of this machine since its boot, in microseconds."""

    def by_clock_of(self, boot: bytes, stored: PutAge) -> PutAge:
        """Return a stored reading, where it is this one, with the clock of this machine of boot id ``boot``."""
        if stored.age_us != self.age_us or stored.boot == boot:
            return stored  # on the same boot of a machine its clock is exact
        return replace(stored, boot=boot, boot_us=self.at_us)


def observed_age(operations: Sequence[Operation], at_us: int) -> ObservedAge | None:
    """Return the reading that a batch stores, None for none; ``at_us`` is the clock of this machine."""
    key = AGE.key()
    for operation in reversed(operations):
        if isinstance(operation, Put) and operation.key == key and operation.family is AGE.family:
            age = AGE.decoded(operation.value)
            return ObservedAge(age.age_us, at_us) if age is not None else None
    return None
