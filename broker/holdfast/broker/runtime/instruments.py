"""What the runtime tells whoever measures it. This one listens to nobody; the composition root brings another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.broker.core.pages import DropReason, Entry
from holdfast.broker.runtime.committer import Synced
from holdfast.broker.runtime.events import Delivered

if TYPE_CHECKING:
    from holdfast.broker.runtime.stats import LaneState


class Instruments:
    """Called on the loop, once per event; must be quick and must not fail."""

    def ingested(self, sink: str, partition: int, entries: Sequence[Entry]) -> None:
        """Pages have become durable."""

    def synced(self, synced: Synced) -> None:
        """A batch was committed."""

    def delivered(self, sink: str, subscription: str, event: Delivered, now_us: int) -> None:
        """Pages were put in flight."""

    def settled(self, sink: str, subscription: str, outcome: str, records: int) -> None:
        """Records were settled."""

    def failed(self, sink: str, subscription: str, why: str) -> None:
        """A delivery failed and will be repeated."""

    def measured(self, sink: str, subscription: str, lanes: list[LaneState]) -> None:
        """The lag of a subscription, once a second."""

    def dropped(self, sink: str, partition: int, reason: DropReason, records: int) -> None:
        """Records were dropped."""
