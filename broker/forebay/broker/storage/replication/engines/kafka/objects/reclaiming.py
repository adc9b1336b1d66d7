"""Reclaiming of the beginning of a topic: what is in the way is carried, what is before it deleted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from forebay.broker.storage.replication.engines.kafka.objects.carrying import best_cut, is_free
from forebay.broker.storage.replication.engines.kafka.objects.index import INDEX
from forebay.broker.storage.replication.engines.kafka.objects.store import TopicStore

GARBAGE_BYTES: Final = 64 << 20
"""Least bytes that are freed at once."""
ABANDONED_S: Final = 60.0
"""Time without a new part from which a change that is not complete has no writer."""
ABANDONED_BYTES: Final = 1 << 30
"""Bytes of other messages after its last part from which it has none either.

Brokers that are killed every minute would notice nothing for long enough, and the topic would grow.
"""


class _Stopped(Exception):
    """A carry was stopped."""


class Reclaiming:
    """Reclaims the space of one topic. Calls block, from any thread; only one does the work."""

    def __init__(
        self,
        store: TopicStore,
        *,
        garbage_bytes: int = GARBAGE_BYTES,
        abandoned_s: float = ABANDONED_S,
        abandoned_bytes: int = ABANDONED_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` tells the age of changes that are not complete, in seconds."""
        self._store: Final = store
        self._garbage_bytes: Final = garbage_bytes
        self._abandoned_s: Final = abandoned_s
        self._abandoned_bytes: Final = abandoned_bytes
        self._clock: Final = clock
        self._noticed: dict[tuple[int, int], tuple[int, float]] = {}
        """Last offsets of changes that are not complete, and times at which they were noticed."""
        self._works: Final = threading.Lock()

    def run(self, stop: threading.Event) -> int:
        """Delete what is not needed at the beginning of the topic, if it is worth it; returns the bytes.

        When ``stop`` is set, what was carried stays, and nothing is deleted. Raises as a ``TopicStore`` does.
        """
        if not self._works.acquire(blocking=False):
            return 0
        try:
            self._abandon()
            cut = self._store.look(lambda objects: best_cut(objects, garbage_bytes=self._garbage_bytes))
            if cut is None:
                return 0
            for found in cut.carried:
                if found.name == INDEX:
                    self._store.delete([INDEX])  # it is written again after the cut
                    continue
                try:
                    self._store.carry(found, cut.base, self._until(stop, self._store.parts(found)))
                except (FileNotFoundError, _Stopped):
                    continue  # removed meanwhile
            if stop.is_set() or not self._store.look(lambda objects: is_free(objects, cut.base)):
                return 0
            self._store.cut(cut.base)
            self._store.write_index()
            return cut.freed_bytes
        finally:
            self._works.release()

    @staticmethod
    def _until(stop: threading.Event, parts: Iterator[bytes]) -> Iterator[bytes]:
        for part in parts:
            if stop.is_set():
                raise _Stopped
            yield part

    def _abandon(self) -> None:
        """End the changes of writers that are gone: those that have got no part for a while."""
        now, before = self._clock(), self._noticed
        incomplete = self._store.incomplete()
        self._noticed = {
            key: before[key] if key in before and before[key][0] == last else (last, now)
            for key, (last, _) in incomplete.items()
        }
        for (writer, number), (_, bytes_after) in incomplete.items():
            waited_s = now - self._noticed[writer, number][1]
            if waited_s >= self._abandoned_s or bytes_after >= self._abandoned_bytes:
                self._store.abandon(writer, number)
