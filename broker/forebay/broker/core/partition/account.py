"""The accounts of a subscription on one partition: how one is opened, and what is kept of it when it is closed.

An account counts from where it was opened, so that it can balance; a seek closes it. What it had counted goes into
the totals of the subscription's life: what was pending becomes skipped. A record that a seek brings back is counted
again by the account that meets it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.pages import Gap
from forebay.broker.core.partition.ranges import Range


@dataclass(frozen=True, slots=True)
class Totals:
    """What became of records in all accounts that were closed."""

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
        """The totals once ``account`` is closed."""
        counted = self.with_open(account)
        return Totals(
            counted.acked,
            counted.dead_lettered,
            counted.dropped,
            counted.skipped + account.pending(next_offset),
            self.seeks + 1,
        )

    def with_open(self, account: Cursor) -> Totals:
        """The totals with what an open account has settled so far."""
        return Totals(
            self.acked + account.acked,
            self.dead_lettered + account.dead_lettered,
            self.dropped + account.dropped,
            self.skipped + account.skipped,
            self.seeks,
        )


def opened(start: int, gaps: Iterable[Gap]) -> Cursor:
    """A new account at ``start``: what is missing from there on counts as dropped, and is yet to be told."""
    missing = [Range(max(gap.first, start), gap.end) for gap in gaps if gap.end > start]
    return Cursor(start=start, watermark=start, told=start).settle_all(missing, Settlement.DROPPED)[0]
