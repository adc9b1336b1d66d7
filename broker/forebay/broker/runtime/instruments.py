"""What the runtime tells whoever measures it. This one listens to nobody; the composition root brings another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forebay.broker.core.partition.pages import DropReason, Entry
from forebay.broker.runtime.commit.committer import Synced
from forebay.broker.runtime.delivery.events import Delivered

if TYPE_CHECKING:
    from forebay.broker.runtime.sink.lag import Lag


class Instruments:
    """Called on the loop, once per event; must be quick and must not fail."""

    wants_lag: bool = False
    """Whether ``measured`` is to be called: with many sinks it is work, so only while somebody looks."""

    def ingested(
        self,
        sink: str,
        partition: int,
        entries: Sequence[Entry],
        age_now_us: int,
        *,
        beside: tuple[int, int] = (0, 0),
    ) -> None:
        """Pages have become durable; ``age_now_us`` is the time now on the clock of their age stamps.

        ``beside``: records and bytes of pages that became durable with them, and that no entry here stands for.
        """

    def synced(self, synced: Synced) -> None:
        """A batch was committed."""

    def delivered(self, sink: str, subscription: str, event: Delivered, redelivered: int, now_us: int) -> None:
        """Pages were put in flight, ``redelivered`` of their records not for the first time."""

    def leased(self, sink: str, subscription: str, partition: int, records: int) -> None:
        """Records that had stepped aside were given out in a set, which is sending them again."""

    def settled(self, sink: str, subscription: str, partition: int, outcome: str, records: int) -> None:
        """Records were settled: ``acked``, ``dropped`` or ``skipped``."""

    def resided(self, sink: str, subscription: str, seconds: Sequence[float]) -> None:
        """Pages were answered to their last record, so long after they had been accepted."""

    def failed(self, sink: str, subscription: str, why: str) -> None:
        """A delivery failed and will be repeated: ``nack``, ``deadline`` or ``disconnect``."""

    def stored(self, sink: str, records: int, size: int) -> None:
        """What all partitions of a sink hold was summed up; with every measurement of its lag."""

    def measured(self, sink: str, subscription: str, lanes: Sequence[Lag]) -> None:
        """The lag of a subscription, once a second."""

    def dropped(self, sink: str, partition: int, reason: DropReason, records: int) -> None:
        """Records were dropped."""

    def connections_closed(self, reason: str, count: int) -> None:
        """Connections were closed for a bound: ``per_peer`` or ``total``."""

    def call_refused(self, caller: str, reason: str) -> None:
        """A call was refused by access control; ``caller`` is what it is known by, never its name."""

    def stream_shed(self, held: int) -> None:
        """A stream was ended that held so many bytes, since its peer took nothing and others waited for room."""

    def forgotten(self, sink: str, subscription: str | None = None) -> None:
        """A sink was deleted, or one of its subscriptions."""
