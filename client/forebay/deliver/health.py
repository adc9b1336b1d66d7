"""Health of a target: what it accepted, and one event when it fails and when it recovers.

A target fails from the first batch that it cannot accept, until each partition with such a batch was sent again with
success. Attempts in between are counted, not logged. A target that alternates is logged at most every `INTERVAL_S`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final

from forebay.deliver.batches.batch import Batch
from forebay.deliver.classification import shorten
from forebay.deliver.outcome import Delivered, Outcome, Retry

_log = logging.getLogger("forebay.deliver")
INTERVAL_S: Final = 10.0
"""Minimum time between two events of the same kind."""
ABANDONED_S: Final = 3_600.0
"""Time without an attempt after which a failed partition is forgotten.

Another deliverer may have it now.
"""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of a deliverer since its start."""

    delivered: int = 0
    """Records that the target accepted."""

    failures: int = 0
    """Attempts that failed and are repeated."""

    rejected: int = 0
    """Records that the target rejected permanently, and those that could not be decoded."""

    failing_s: float | None = None
    """Time since when the target fails; None while it accepts."""


class TargetHealth:
    """Health of the target of one deliverer. Thread-safe."""

    def __init__(self, sink: str, subscription: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._place = sink, subscription
        self._clock = clock
        self._lock = Lock()
        """Protects all below."""
        self._delivered = 0
        self._failures = 0
        self._rejected = 0
        self._failed: dict[int, float] = {}
        """Partitions whose last attempt failed, with its time."""
        self._failing_since: float | None = None
        self._attempts = 0
        """Failed attempts since then."""
        self._is_logged = False
        """True if the failure was logged, so that its end will be."""
        self._failure_logged_at = self._rejection_logged_at = float("-inf")
        self._rejected_before = 0
        """Rejected records at the last event of one."""

    @property
    def totals(self) -> Totals:
        """Return the counts as of now."""
        with self._lock:
            since = self._failing_since
            return Totals(
                self._delivered, self._failures, self._rejected, None if since is None else self._clock() - since
            )

    def sent(self, batch: Batch, outcome: Outcome) -> None:
        """Count an outcome, and log it if it begins or ends a failure."""
        with self._lock:
            self._delivered += len(batch) if isinstance(outcome, Delivered) else outcome.delivered
            if isinstance(outcome, Retry):
                self._fail(batch, outcome)
            else:  # a rejection is an answer, too
                self._recover(batch.partition)

    def rejected(self, partition: int, first: int, last: int, reason: str) -> None:
        """Count records that become dead letters, and log the first of them in `INTERVAL_S`."""
        with self._lock:
            self._rejected += last - first + 1
            if self._clock() - self._rejection_logged_at < INTERVAL_S:
                return
            self._rejection_logged_at = self._clock()
            count, self._rejected_before = self._rejected - self._rejected_before, self._rejected
        _log.error(
            "records were rejected sink=%s subscription=%s partition=%d first_offset=%d last_offset=%d records=%d "
            "reason=%r",
            *(*self._place, partition, first, last, count, reason),
        )

    def _fail(self, batch: Batch, outcome: Retry) -> None:
        now = self._clock()
        self._failures += 1
        self._attempts += 1
        self._failed[batch.partition] = now
        if self._failing_since is None:
            self._failing_since = now
        if self._is_logged or now - self._failure_logged_at < INTERVAL_S:
            return
        self._is_logged, self._failure_logged_at = True, now
        _log.warning(
            "target failed sink=%s subscription=%s partition=%d offset=%d reason=%r",
            *(*self._place, batch.partition, batch.first_offset + outcome.delivered, shorten(outcome.reason)),
        )

    def _recover(self, partition: int) -> None:
        since, now = self._failing_since, self._clock()
        if since is None:
            return
        self._failed.pop(partition, None)
        if any(now - failed_at < ABANDONED_S for failed_at in self._failed.values()):
            return
        if self._is_logged:
            _log.info(
                "target recovered sink=%s subscription=%s after_s=%.1f failed_attempts=%d",
                *(*self._place, now - since, self._attempts),
            )
        self._failed.clear()
        self._failing_since, self._attempts, self._is_logged = None, 0, False
