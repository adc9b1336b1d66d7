"""Instruments interface of the runtime. This implementation does nothing; the server passes another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forebay.broker.core.partition.pages import DropReason, Entry
from forebay.broker.runtime.commit.committer import Synced
from forebay.broker.runtime.delivery.events import Delivered


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of one subscription on one partition; see ``statistics.LaneState``."""

    partition: int
    pending: int
    pending_bytes: int
    oldest_age_us: int
    realtime: bool | None


class Instruments:
    """Events of the runtime. Called on the loop, once per event; calls must be quick and must not fail."""

    wants_lag: bool = False
    """True if ``measured`` is to be called: with many sinks it is costly, so only while it is read."""

    def ingested(
        self,
        sink: str,
        partition: int,
        entries: Sequence[Entry],
        age_now_us: int,
        *,
        beside: tuple[int, int] = (0, 0),
    ) -> None:
        """Count pages that became durable; ``age_now_us`` is the time now on the clock of their age stamps.

        ``beside``: records and bytes of pages that became durable with them, and that have no entry here.
        """

    def synced(self, synced: Synced) -> None:
        """Record a committed batch."""

    def delivered(self, sink: str, subscription: str, event: Delivered, redelivered: int, now_us: int) -> None:
        """Count pages put in flight; ``redelivered`` of their records were sent before."""

    def leased(self, sink: str, subscription: str, partition: int, records: int) -> None:
        """Count records that were leased from the retry queue as a set: a redelivery."""

    def settled(self, sink: str, subscription: str, partition: int, outcome: str, records: int) -> None:
        """Count settled records: ``acked``, ``dropped`` or ``skipped``."""

    def resided(self, sink: str, subscription: str, seconds: Sequence[float]) -> None:
        """Record the times from acceptance to the last answer of pages."""

    def failed(self, sink: str, subscription: str, why: str) -> None:
        """Count a failed delivery that will be retried: ``nack``, ``deadline`` or ``disconnect``."""

    def stored(self, sink: str, records: int, size: int) -> None:
        """Record the total content of a sink; with every measurement of its lag."""

    def measured(self, sink: str, subscription: str, lanes: Sequence[Lag]) -> None:
        """Record the lag of a subscription, once a second."""

    def dropped(self, sink: str, partition: int, reason: DropReason, records: int) -> None:
        """Count dropped records."""

    def connections_closed(self, reason: str, count: int) -> None:
        """Count connections closed for a bound: ``per_peer`` or ``total``."""

    def call_refused(self, caller: str, reason: str) -> None:
        """Count a call refused by access control; ``caller`` is its kind of credential, never its name."""

    def stream_shed(self, held: int) -> None:
        """Count a stream that was ended with ``held`` bytes: its peer read nothing while others waited."""

    def forgotten(self, sink: str, subscription: str | None = None) -> None:
        """Remove a deleted sink, or one of its subscriptions."""
