"""Upkeep of a follower's local store: release of the space of deleted pages, and checkpoints.

A batch deletes pages, and an owner then releases their space; a follower has to do that itself. The batches that delete
are synced before: a power loss would otherwise take them away, and leave entries whose pages are gone.

Both have one thread, so no page is released while a checkpoint transfers its file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from forebay.broker.storage.errors import StoreError
from forebay.broker.storage.replication.checkpoints.job import CheckpointJob
from forebay.broker.storage.replication.checkpoints.source import CheckpointSource
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Operation
from forebay.broker.storage.store.key_ranges import Span

_log: Final = logging.getLogger(__name__)
DELETES_MIN: Final = 1_024
"""Deletions of small pages from which their space is released: less stays in buffers anyway."""
CHECK_S: Final = 5.0
"""Interval at which it is looked whether a checkpoint is due."""
RETRY_S: Final = 60.0
"""Pause after a checkpoint that failed."""


class CheckpointFailed(Exception):
    """A checkpoint failed. The text has the cause."""


class Upkeep:
    """Releases the space of deleted pages, and makes checkpoints, in a thread of its own.

    Its methods are called by the thread that applies batches.
    """

    def __init__(self, replica: Replica, checkpoints: CheckpointSource | None, clock: Callable[[], float]) -> None:
        """Begin with what is deleted, and not released yet.

        The errors of ``checkpoints`` are ``CheckpointFailed``.
        """
        self._replica: Final = replica
        self._checkpoints: Final = checkpoints
        self._clock: Final = clock
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix="forebay-upkeep")
        self._running: Future[None] | None = None
        self._job: CheckpointJob | None = None
        self._is_prepared = False
        self._cause = ""
        """Why the checkpoint in progress is given up; also where its job is not there yet."""
        self._check_at = clock()
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

    def step(self) -> None:
        """Begin what is due, unless something runs.

        Called between two batches, once this process has read to the end of the journal: from there on a replica has
        every batch that an earlier process has applied before a power loss.
        """
        if self._running is not None:
            if not self._running.done():
                return
            self._running.result()  # an error that is not expected ends the follower
            self._running = None
        if self._job is not None:
            self._go_on(self._job)
            return
        if not self._begin_release() and self._checkpoints is not None and self._clock() >= self._check_at:
            self._check_at = self._clock() + CHECK_S
            self._cause = ""
            self._running = self._thread.submit(self._prepare, self._checkpoints)

    def _prepare(self, checkpoints: CheckpointSource) -> None:
        """Write an index, and prepare a checkpoint, if one is due."""
        try:
            checkpoints.index()
            if not checkpoints.is_due():
                return
            self._job = checkpoints.job()
            if self._cause:  # `stop` may have found no job
                return
            self._job.prepare()
        except CheckpointFailed as failure:
            self._fail(failure)
        else:
            self._is_prepared = True

    def _go_on(self, job: CheckpointJob) -> None:
        """Take the snapshot of a checkpoint that is prepared, and transfer it."""
        if not self._is_prepared:
            self._job = None
            return
        self._is_prepared = False
        try:
            job.take()
        except CheckpointFailed as failure:
            job.remove()
            self._fail(failure)
        else:
            self._running = self._thread.submit(self._transfer, job)

    def _transfer(self, job: CheckpointJob) -> None:
        began = self._clock()
        try:
            job.copy_bulk(lambda: None)
            job.copy_rest(lambda: None)
            found = job.finish(lambda: self._clock() - began)
        except CheckpointFailed as failure:
            self._fail(failure)
        else:
            _log.info(
                "checkpoint was completed checkpoint=%s bytes=%d transferred=%d seconds=%.1f",
                *(found.id, found.size, found.transferred_bytes, found.seconds),
            )
        finally:
            job.remove()

    def _fail(self, failure: Exception) -> None:
        self._check_at = self._clock() + RETRY_S
        _log.warning("checkpoint was not completed cause=%s", failure)

    def _begin_release(self) -> bool:
        """Begin to release what is due; returns False if nothing is."""
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
        return bool(due)

    def _release(self, due: Sequence[tuple[Family, Span]]) -> None:
        for family, (first, end) in due:
            try:
                self._replica.store.compact(family, first, end)
            except StoreError as failure:
                _log.error("space of pages was not released family=%s cause=%s", family, failure)

    def stop(self, cause: str) -> None:
        """Give a checkpoint up that is in progress. Does not wait for its end; the next one begins later."""
        self._cause = cause
        if self._job is not None:
            self._job.stop(cause)

    def finish(self) -> None:
        """Give a checkpoint up, and release the space of all pages that are deleted by now."""
        self._end("the broker takes over")
        self._begin_release()

    def _end(self, cause: str) -> None:
        self.stop(cause)
        if self._running is not None:
            wait([self._running])
        if self._job is not None:
            self._job.remove()
            self._job = None

    def close(self) -> None:
        """End the work in progress, and the thread."""
        self._end("the broker stops")
        self._thread.shutdown()


def _hull(spans: Sequence[Span], known: Span | None = None) -> Span | None:
    """Return the range from the first to the last key of all."""
    wanted = [span for span in (*spans, known) if span is not None and span[0] < span[1]]
    return (min(first for first, _ in wanted), max(end for _, end in wanted)) if wanted else None
