"""End of a running sink: at a stop of the broker its state is kept, at a deletion nothing is."""

from __future__ import annotations

from collections.abc import Mapping

from forebay.broker.core.settings import BufferMode
from forebay.broker.core.writes import WHOLE_SINK, DropSink, Due
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.reclaimer import Reclaimer
from forebay.broker.runtime.commit.reservations import Reservations
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.epochs.staging import Staging
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.runtime.resources.supervision import SupervisedWork
from forebay.broker.runtime.sink.memory_tier import MemoryTier
from forebay.broker.runtime.sink.retention.removal import Removal
from forebay.broker.runtime.sink.state import Sink


class Shutdown:
    """Close or deletion of one sink."""

    def __init__(
        self,
        sink: Sink,
        subscriptions: Mapping[str, Subscription],
        offsets: Reservations,
        tier: MemoryTier,
        removal: Removal,
        trimming: SupervisedWork,
        staging: Staging,
        *,
        committer: Committer,
        reclaimer: Reclaimer,
        pages: Pages,
        quota: Quota,
    ) -> None:
        """``trimming`` is the task that trims the sink."""
        self._sink = sink
        self._subscriptions = subscriptions
        self._offsets = offsets
        self._tier = tier
        self._removal = removal
        self._trimming = trimming
        self._staging = staging
        self._committer = committer
        self._reclaimer = reclaimer
        self._pages = pages
        self._quota = quota

    async def settled_in(self) -> None:
        """Return when no page of the sink waits for its batch."""
        while self._committer.fenced is None:
            under_way = self._staging.waiting or self._staging.committing
            if not under_way and not any(log.queued_bytes for log in self._sink.logs):
                return
            await self._committer.committed.next().wait()

    async def close(self) -> None:
        """End the sink's tasks; its state is kept."""
        for subscription in self._subscriptions.values():
            subscription.close()
        self._removal.close()
        await self._trimming.stop()
        await self._staging.close()

    async def close_memory(self) -> None:
        """Spill what is only in memory at a clean stop, or drop and count it in a sink that never writes."""
        if self._sink.record.settings.buffer_mode == BufferMode.MEMORY:
            self._removal.drop_from_memory()
        await self._tier.close()
        await self._removal.end()

    async def delete(self) -> None:
        """Delete the sink with everything that belongs to it."""
        sink = self._sink
        sink.end()
        await self.settled_in()
        await self.close()
        self._quota.remove(sum(log.size for log in sink.logs))
        self._tier.clear()
        self._staging.clear()
        sink.changed.fire()
        await self._committer.write([DropSink(sink.id)])
        self._offsets.free_slots()
        for subscription in self._subscriptions.values():
            subscription.accounts.remove_marks()
        whole = [Due(sink.id, WHOLE_SINK, bulk, 0, 0, 0) for bulk in (True, False)]
        self._reclaimer.add(whole)
        self._pages.holds.remove(sink.id, range(len(sink.logs)))
        self._pages.read_cache.evict_sink(sink.id)
