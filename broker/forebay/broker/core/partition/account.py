"""Accounts of a subscription on one partition: opening, closing and lifetime totals.

An account counts from the offset where it was opened, so that it can balance. A seek closes it and adds its counts to
the lifetime totals of the subscription; pending records become skipped. A record that is delivered again after a seek
is counted again by the new account.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.pages import Gap
from forebay.broker.core.partition.ranges import Range


@dataclass(frozen=True, slots=True)
class Totals:
    """Outcomes of records in all closed accounts."""

    acked: int = 0
    """Records settled by an ack."""

    dead_lettered: int = 0
    """Records moved to a dead-letter sink."""

    dropped: int = 0
    """Records dropped before they were settled, or missing where an account was opened."""

    skipped: int = 0
    """Records pending when their account was closed, or passed over."""

    seeks: int = 0
    """Accounts closed."""

    def closed(self, account: Cursor, next_offset: int) -> Totals:
        """Return the totals after ``account`` is closed."""
        counted = self.with_open(account)
        return Totals(
            counted.acked,
            counted.dead_lettered,
            counted.dropped,
            counted.skipped + account.pending(next_offset),
            self.seeks + 1,
        )

    def with_open(self, account: Cursor) -> Totals:
        """Return the totals including what an open account has settled so far."""
        return Totals(
            self.acked + account.acked,
            self.dead_lettered + account.dead_lettered,
            self.dropped + account.dropped,
            self.skipped + account.skipped,
            self.seeks,
        )


def opened(start: int, gaps: Iterable[Gap]) -> Cursor:
    """Return a new account at ``start``: gaps from there on count as dropped and need a gap notice."""
    missing = [Range(max(gap.first, start), gap.end) for gap in gaps if gap.end > start]
    return Cursor(start=start, watermark=start, notified=start).settle_all(missing, Settlement.DROPPED)[0]
