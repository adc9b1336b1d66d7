"""Observations of the clients, kept outside of them and of the broker: acks, deliveries, ended processes."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.fault_client.worker import PARTITIONS

UNNAMED: Final = frozenset({"ClientFault", "ForebayError"})
"""Errors that say of an end only that it was not expected."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Something that ended, or a call that failed."""

    who: str
    error: str
    reason: str
    text: str

    @property
    def has_reason(self) -> bool:
        """Return True if the cause is clear to programs and to people."""
        return bool(self.reason) and bool(self.text) and self.error not in UNNAMED


class Ledger:
    """Usable from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        """Protects what follows."""
        self.round = 0
        """The round that is on; set by the campaign."""
        self._acked: dict[tuple[int, int], tuple[int, int]] = {}
        self._offsets: dict[tuple[int, int], int] = {}
        self._highest = [-1] * PARTITIONS
        self._sent = {"acked": [0.0] * PARTITIONS, "delivered": [0.0] * PARTITIONS}
        self.redelivered = 0
        self.disorder = 0
        self.twice = 0
        self.gaps: list[str] = []
        self.ends: list[tuple[int, Ended]] = []
        self.calls: list[tuple[int, float]] = []
        self._numbers: dict[int, int] = {}

    @property
    def acknowledged(self) -> int:
        """Records with a receipt."""
        return len(self._acked)

    def take(self, line: list[Any]) -> None:
        """Take a line of a worker."""
        kind, *rest = line
        with self._changed:
            if kind == "acked":
                partition, offset, number, sent = rest
                self._acked[number, partition] = (offset, self.round)
                self._sent["acked"][partition] = max(sent, self._sent["acked"][partition])
            elif kind == "delivered":
                self._delivered(*rest)
            elif kind == "ended":
                self.ends.append((self.round, Ended(*rest)))
            elif kind == "asked":
                took, error, reason, text = rest
                self.calls.append((self.round, took))
                if error:
                    self.ends.append((self.round, Ended("call", error, reason, text)))
            elif kind == "gap":
                self.gaps.append(rest[0])
            self._changed.notify_all()

    def _delivered(self, partition: int, offset: int, number: int, sent: float) -> None:
        self._sent["delivered"][partition] = max(sent, self._sent["delivered"][partition])
        if (partition, offset) in self._offsets:
            self.redelivered += 1
            self.disorder += self._offsets[partition, offset] != number
            return
        self._offsets[partition, offset] = number
        self.twice += number in self._numbers
        self.disorder += offset <= self._highest[partition]
        self._highest[partition] = max(offset, self._highest[partition])
        self._numbers[number] = offset

    def going_on(self, since: float, until: float, look: Callable[[], None]) -> bool:
        """Return whether records sent after ``since`` were acknowledged and delivered before ``until``.

        ``look`` is called now and then.
        """
        while time.monotonic() < until:
            with self._changed:
                if min(*self._sent["acked"], *self._sent["delivered"]) >= since:
                    return True
                self._changed.wait(0.1)
            look()
        return False

    def waiting_for(self, since: float) -> str:
        """Return what has not come since then."""
        with self._changed:
            late = [
                f"{kind} in partition {partition}"
                for kind, times in self._sent.items()
                for partition, sent in enumerate(times)
                if sent < since
            ]
        return ", ".join(late)

    def all_delivered(self, until: float, look: Callable[[], None]) -> bool:
        """Return whether all that was acknowledged was delivered before ``until``."""
        while time.monotonic() < until:
            if not self.lost():
                return True
            look()
            time.sleep(0.2)
        return not self.lost()

    def lost(self) -> Counter[int]:
        """Return how many acknowledged records were not delivered from where their receipt says, by round."""
        with self._changed:
            return Counter(
                at
                for (number, partition), (offset, at) in self._acked.items()
                if self._offsets.get((partition, offset)) != number
            )

    def out_of_order(self) -> int:
        """Return how many records stand before one of their partition that was sent earlier."""
        with self._changed:
            found = 0
            for wanted in range(PARTITIONS):
                numbers = [number for (partition, _), number in sorted(self._offsets.items()) if partition == wanted]
                found += sum(later <= earlier for earlier, later in itertools.pairwise(numbers))
            return found
