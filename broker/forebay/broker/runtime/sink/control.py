"""Control of a running sink: pausing and resuming its deliveries, and new settings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import PutSink
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.reservations import Reservations
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.sink.appends import Appends
from forebay.broker.runtime.sink.retention.removal import Removal
from forebay.broker.runtime.sink.state import Sink

_log: Final = logging.getLogger(__name__)


class SinkControl:
    """Durable changes of one sink's record, applied to its parts."""

    def __init__(
        self,
        sink: Sink,
        subscriptions: Mapping[str, Subscription],
        offsets: Reservations,
        removal: Removal,
        appends: Appends,
        *,
        committer: Committer,
        pages: Pages,
    ) -> None:
        self._sink = sink
        self._subscriptions = subscriptions
        self._offsets = offsets
        self._removal = removal
        self._appends = appends
        self._committer = committer
        self._pages = pages

    def pause(self, reason: str) -> asyncio.Future[None]:
        """Pause deliveries, durably; appends continue."""
        sink = self._sink
        sink.record = replace(sink.record, paused=reason)
        for subscription in self._subscriptions.values():
            subscription.pause(reason)
        _log.warning("sink was paused sink=%s reason=%s", sink.record.name, reason)
        return self._committer.write([PutSink(sink.record)])

    def resume(self) -> asyncio.Future[None]:
        """Resume deliveries where they were."""
        if self._sink.record.paused is not None:
            _log.info("sink was resumed sink=%s", self._sink.record.name)
        self._sink.record = replace(self._sink.record, paused=None)
        for subscription in self._subscriptions.values():
            subscription.resume()
        return self._committer.write([PutSink(self._sink.record)])

    def change(self, settings: SinkSettings) -> asyncio.Future[None]:
        """Apply new settings from now on. Additional partitions are added."""
        sink = self._sink
        may_lose = sink.record.settings.may_lose
        sink.record = replace(sink.record, settings=settings)
        self._pages.read_cache.limit(sink.id, settings.realtime_bytes)
        self._grow(settings.partitions)
        for subscription in self._subscriptions.values():
            subscription.change(settings)
        for log in sink.logs:
            self._removal.trim_now(log.number)
        put = [PutSink(sink.record)]
        if may_lose and not settings.may_lose:
            self._appends.require_sync()
            return self._offsets.end(put)
        return self._committer.write(put)

    def _grow(self, partitions: int) -> None:
        """Add partitions. Their pages are written no earlier than the record that adds them."""
        record = self._sink.record
        known = self._sink.logs
        logs = [PartitionLog(number, replicated=known[0].replicated) for number in range(len(known), partitions)]
        if not logs:
            return
        self._sink.add_logs(logs)
        self._appends.grow(logs)
        for subscription in self._subscriptions.values():
            lanes = [Lane(Cursor(), record.settings) for _ in logs]
            if record.paused is not None:
                for lane in lanes:
                    lane.pause(record.paused)
            subscription.grow(lanes)
