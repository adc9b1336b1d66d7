"""Reads all partitions of a sink again, one after another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

from forebay.client.admin.sinks import Sinks
from forebay.client.errors import InvalidRange
from forebay.client.replay.reader import Reading
from forebay.client.replay.replayer import PageReplay, ReplayOptions
from forebay.client.transport.channel import Channels
from forebay.client.values.records import Gap, StoredPage
from forebay.client.values.sinks import Sink

PAGES_LEFT: Final = 4
"""With about so many pages left of a partition, the next one is opened: its first page comes while these are read."""


class SinkReplay(Reading[StoredPage | Gap]):
    """Iterator of :class:`StoredPage` and :class:`Gap` over the partitions by number; see :class:`PageReplay`.

    The partitions are those that the sink has when the first page is asked for, and each ends where it ends when it is
    opened. Usable from one thread at a time; ``close`` from any. Iterating raises what :class:`PageReplay` raises, and
    ``InvalidRange`` for what only one partition can have, where the sink has several.
    """

    def __init__(self, channels: Channels, sinks: Sinks, sink: str, options: ReplayOptions) -> None:
        self._channels = channels
        self._sinks = sinks
        self._sink = sink
        self._options = options
        self._closing = threading.Event()
        self._opened: tuple[PageReplay, ...] = ()
        """The one that is read and the one behind it."""
        self._steps = self._read()

    def __next__(self) -> StoredPage | Gap:
        """Return the next page or gap; ends behind the last partition, or when it is closed."""
        return next(self._steps)

    def close(self) -> None:
        """End the iteration. Closing twice is fine."""
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
            raise InvalidRange(
                f"sink {self._sink!r} has {found} partitions: name the one that {' and '.join(of_one)} is for"
            )
        return found
