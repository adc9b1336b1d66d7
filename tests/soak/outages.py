"""Targets that fail: for a while a target works, then it refuses, hangs, or is gone, then it works again.

Every consumer has a target of its own, so that outages of many sinks overlap as they like.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from forebay.client import Delivery

LATEST_S: Final = 5.0
"""Interval of checks while a target hangs."""


class Kind(StrEnum):
    """Fault of a target."""

    REFUSES = "refuses"
    """It answers that it cannot now; the consumer nacks the delivery, with or without a delay."""

    HANGS = "hangs"
    """It does not answer; nor does the consumer, until its deadline is over."""

    GONE = "gone"
    """The consumer loses its connection, and reconnects."""


class Target:
    """One target and its outages. Asked from one thread."""

    def __init__(
        self,
        chance: random.Random,
        stop: threading.Event,
        *,
        works_s: float,
        fails_s: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``works_s`` and ``fails_s`` are means."""
        self._chance = chance
        self._stop = stop
        self._works_s = works_s
        self._fails_s = fails_s
        self._now = now
        self._fails_at = now() + chance.expovariate(1 / works_s)
        self._works_at = self._fails_at
        self._kind = Kind.REFUSES
        self.outages = 0
        self.refused = 0
        """Deliveries that it did not take."""

    def refuse(self, delivery: Delivery) -> bool | None:
        """As ``tests.support.campaigns.consumers.Outage`` wants it."""
        now = self._now()
        if now < self._fails_at:
            return None
        if now >= self._works_at:
            if self._works_at > self._fails_at:  # the outage is over
                self._fails_at = self._works_at = now + self._chance.expovariate(1 / self._works_s)
                return None
            self._works_at = now + self._chance.expovariate(1 / self._fails_s)
            self._kind = self._chance.choice(list(Kind))
            self.outages += 1
        self.refused += 1
        match self._kind:
            case Kind.REFUSES:
                delivery.nack(delay_s=self._chance.choice([None, 0.5, 2.0]), reason="the target refuses")
                return True
            case Kind.HANGS:
                self._stop.wait(min(LATEST_S, self._works_at - now))
                return True
            case Kind.GONE:
                self._stop.wait(min(LATEST_S, self._works_at - now))
                return False
