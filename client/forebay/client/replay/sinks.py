"""Replay of all partitions of a sink, one after another."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from forebay.client.admin.sinks import SinkCalls
from forebay.client.errors import ForebayError, InvalidArgument
from forebay.client.replay.iterator import ClosableIterator
from forebay.client.replay.pages import PartitionPages, ReplayOptions
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import blocked
from forebay.client.values.records import Gap, StoredPage
from forebay.client.values.sinks import Sink
from forebay.errors.reasons import Reason

PAGES_LEFT: Final = 4
"""Number of remaining pages at which the next partition is opened, to hide its latency."""


class SinkPages:
    """Pages of all partitions, for the thread client and for the asyncio client.

    Not thread-safe, except ``close``.
    """

    def __init__(self, channels: Channels, sink: str, options: ReplayOptions) -> None:
        self._channels = channels
        self._sinks = SinkCalls(channels)
        self._sink = sink
        self._options = options
        self._closing = threading.Event()
        self._left: deque[PartitionPages] | None = None
        """The replay that is read, and those of the following partitions; None before the first step."""

    async def step(self) -> StoredPage | Gap | None:
        """Return the next page or gap; None after the last partition, or when the replay is closed."""
        if self._left is None:
            found = await self._sinks.find(self._sink)
            self._left = deque(self._of(number, found.incarnation) for number in range(self._count(found)))
        while self._left and not self._closing.is_set():
            current = self._left[0]
            try:
                step = await current.step()
            except ForebayError:
                self.close()
                raise
            if step is None:
                current.close()
                self._left.popleft()
                continue
            if len(self._left) > 1 and isinstance(step, StoredPage) and current.left <= PAGES_LEFT * len(step):
                self._left[1].begin()
            return step
        return None

    def close(self) -> None:
        """End the iteration. Idempotent."""
        self._closing.set()
        for one in list(self._left or ()):
            one.close()

    def _of(self, partition: int, incarnation: str) -> PartitionPages:
        options: ReplayOptions = {"incarnation": incarnation, **self._options}
        return PartitionPages(self._channels, self._sink, partition=partition, **options)

    def _count(self, sink: Sink) -> int:
        found = sink.settings.partitions
        of_one = [name for name in ("start", "end") if self._options.get(name) is not None]
        if self._options.get("follow"):
            of_one.append("follow")
        if of_one and found > 1:
            raise InvalidArgument(
                f"sink {self._sink!r} has {found} partitions: {' and '.join(of_one)} require a partition",
                reason=Reason.INVALID_RANGE,
            )
        return found


class SinkReplay(ClosableIterator[StoredPage | Gap]):
    """Iterator of :class:`StoredPage` and :class:`Gap` over all partitions; see :class:`PageReplay`.

    The number of partitions is read with the first page; each partition ends at its end when it is opened. Not
    thread-safe, except ``close``. Iterating raises as :class:`PageReplay`, and ``INVALID_RANGE`` for options of a
    single partition if the sink has several.
    """

    def __init__(self, channels: Channels, sink: str, options: ReplayOptions) -> None:
        self._pages = SinkPages(channels, sink, options)

    def __next__(self) -> StoredPage | Gap:
        """Return the next page or gap; stops after the last partition, or when the replay is closed."""
        step = blocked(self._pages.step())
        if step is None:
            raise StopIteration
        return step

    def close(self) -> None:
        """End the iteration. Idempotent."""
        self._pages.close()
