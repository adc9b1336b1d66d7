"""Replay of all partitions of a sink, one after another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

from forebay.client.admin.sinks import Sinks
from forebay.client.errors import InvalidArgument
from forebay.client.replay.iterator import ClosableIterator
from forebay.client.replay.pages import PageReplay, ReplayOptions
from forebay.client.transport.channel import Channels
from forebay.client.values.records import Gap, StoredPage
from forebay.client.values.sinks import Sink
from forebay.errors.reasons import Reason

PAGES_LEFT: Final = 4
"""Number of remaining pages at which the next partition is opened, to hide its latency."""


class SinkReplay(ClosableIterator[StoredPage | Gap]):
    """Iterator of :class:`StoredPage` and :class:`Gap` over all partitions; see :class:`PageReplay`.

    The number of partitions is read with the first page; each partition ends at its end when it is opened. Not
    thread-safe, except ``close``. Iterating raises as :class:`PageReplay`, and ``INVALID_RANGE`` for options of a
    single partition if the sink has several.
    """

    def __init__(self, channels: Channels, sinks: Sinks, sink: str, options: ReplayOptions) -> None:
        self._channels = channels
        self._sinks = sinks
        self._sink = sink
        self._options = options
        self._closing = threading.Event()
        self._opened: tuple[PageReplay, ...] = ()
        """The replay that is read, and the next one."""
        self._steps = self._read()

    def __next__(self) -> StoredPage | Gap:
        """Return the next page or gap; stops after the last partition, or when the replay is closed."""
        return next(self._steps)

    def close(self) -> None:
        """End the iteration. Idempotent."""
        self._closing.set()
        for one in self._opened:
            one.close()

    def _read(self) -> Iterator[StoredPage | Gap]:
        found = self._sinks.get(self._sink)
        replays = [self._of(number, found.incarnation) for number in range(self._count(found))]
        try:
            for current, behind in zip(replays, [*replays[1:], None], strict=True):
                self._opened = (current,) if behind is None else (current, behind)
                if self._closing.is_set():
                    return
                for step in current:
                    if behind is not None and isinstance(step, StoredPage) and current.left <= PAGES_LEFT * len(step):
                        behind.begin()
                    yield step
        finally:
            for one in self._opened:
                one.close()

    def _of(self, partition: int, incarnation: str) -> PageReplay:
        options: ReplayOptions = {"incarnation": incarnation, **self._options}
        return PageReplay(self._channels, self._sink, partition=partition, **options)

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
