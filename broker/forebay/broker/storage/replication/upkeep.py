"""Upkeep of a follower's local store, beside the application of batches.

A batch deletes pages, and an owner then releases their space; a follower has to do that itself. The batches that delete
are synced before: a power loss would otherwise take them away, and leave entries whose pages are gone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from forebay.broker.storage.errors import StoreError
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Operation
from forebay.broker.storage.store.key_ranges import Span

_log: Final = logging.getLogger(__name__)
DELETES_MIN: Final = 1_024
"""Deletions of small pages from which their space is released: less stays in buffers anyway."""


class Upkeep:
    """Releases the space of deleted pages in a thread of its own.

    Its methods are called by the thread that applies batches.
    """

    def __init__(self, replica: Replica) -> None:
        """Begin with what is deleted, and not released yet."""
        self._replica: Final = replica
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix="forebay-upkeep")
        self._running: Future[None] | None = None
        self._bulk = _hull(replica.store.deleted_bulk())
        self._small: Span | None = None
        self._small_deletes = 0

    def note(self, operations: Sequence[Operation]) -> None:
        """Take note of the deletions of an applied batch."""
        for operation in operations:
            match operation:
                case Delete(Family.BULK, key):
                    self._bulk = _hull([(key, key + b"\0")], self._bulk)
                case DeleteRange(Family.BULK, first, end):
                    self._bulk = _hull([(first, end)], self._bulk)
                case Delete(Family.SMALL, key):
                    self._small = _hull([(key, key + b"\0")], self._small)
                    self._small_deletes += 1
                case DeleteRange(Family.SMALL, first, end):
                    self._small = _hull([(first, end)], self._small)
                    self._small_deletes += DELETES_MIN

    def begin(self) -> None:
        """Begin to release what is due, unless that runs already. Called between two batches."""
        if self._running is not None and not self._running.done():
            return
        due: list[tuple[Family, Span]] = []
        if self._bulk is not None:
            due.append((Family.BULK, self._bulk))
            self._bulk = None
        if self._small is not None and self._small_deletes >= DELETES_MIN:
            due.append((Family.SMALL, self._small))
            self._small, self._small_deletes = None, 0
        if due:
            self._replica.store.sync()
            self._running = self._thread.submit(self._release, due)

    def finish(self) -> None:
        """Release the space of all pages in files that are deleted by now, as an owner expects it."""
        if self._running is not None:
            wait([self._running])
        self.begin()

    def _release(self, due: Sequence[tuple[Family, Span]]) -> None:
        for family, (first, end) in due:
            try:
                self._replica.store.compact(family, first, end)
            except StoreError as failure:
                _log.error("space of pages was not released family=%s cause=%s", family, failure)

    def close(self) -> None:
        """Wait for the work in progress, and end the thread."""
        self._thread.shutdown()


def _hull(spans: Sequence[Span], known: Span | None = None) -> Span | None:
    """Return the range from the first to the last key of all."""
    wanted = [span for span in (*spans, known) if span is not None and span[0] < span[1]]
    return (min(first for first, _ in wanted), max(end for _, end in wanted)) if wanted else None
