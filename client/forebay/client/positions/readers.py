"""Readers of the partitions of one sink.

Each replays one partition on its own thread, into one bounded queue. Room in the queue is granted in the order in which
it was asked for, so that a partition of large pages gets its turn beside one of small pages.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forebay.client.errors import ForebayError
from forebay.client.replay.iterator import ClosableIterator
from forebay.client.transport.forks import PROCESS
from forebay.client.transport.threads import GuardedThread
from forebay.client.values.records import Gap, StoredPage

HELD_BYTES: Final = 256
"""Bytes beside the body of a queued page, and for each of its parts (measured: 300, and 150 to 250)."""


@dataclass(frozen=True, slots=True)
class Read:
    """Pages that were read, in order."""

    partition: int
    found: StoredPage | Gap

    @property
    def size(self) -> int:
        """Bytes that it takes in memory, estimated; a gap takes as much as an empty page of one part."""
        if isinstance(self.found, StoredPage):
            return len(self.found.body) + HELD_BYTES * (1 + len(self.found.parts))
        return 2 * HELD_BYTES


class PartitionReaders:
    """Readers and their queue. ``take`` is called by one thread."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._changed = threading.Condition()
        """Protects everything below."""
        self._queue: deque[Read] = deque()
        self._bytes = 0
        self._asking: deque[Read] = deque()
        """Pages and gaps that wait for room in the queue, in the order of asking."""
        self._error: ForebayError | None = None
        self._reading = 0
        """Readers that have not reached their end."""
        self._replays: list[ClosableIterator[StoredPage | Gap]] = []
        self._threads: list[threading.Thread] = []
        self._running: set[threading.Thread] = set()
        """Threads that may still need the lock."""
        self._closed = False
        self._forks: Final = PROCESS.forks

    def add(self, partition: int, open_replay: Callable[[], ClosableIterator[StoredPage | Gap]]) -> None:
        """Begin to read a partition."""
        with self._changed:
            if self._closed:
                return
            replay = open_replay()
            self._replays.append(replay)
            self._reading += 1
            thread = GuardedThread(
                lambda: self._read(partition, replay), name=f"forebay-reader-{partition}", on_fault=self._fail
            )
            self._threads.append(thread)
            self._running.add(thread)
            try:
                thread.start()  # within the lock: ``close`` waits for threads that were started
            except RuntimeError:  # the process may have no more threads
                self._running.discard(thread)
                self._threads.remove(thread)
                self._replays.remove(replay)
                self._reading -= 1
                replay.close()
                raise

    def take(self, timeout_s: float | None) -> Read | None:
        """Return the next page or gap, waiting for it.

        Returns None after ``timeout_s``, at the end of all partitions, and when closed.

        Raises the error that ended a reader, after the pages that were read before it; the other readers end too.
        """
        with self._changed:
            self._changed.wait_for(self._is_ready, timeout_s)
            if self._queue and not self._closed:
                read = self._queue.popleft()
                self._bytes -= read.size
                self._changed.notify_all()
                return read
            if self._error is not None:
                raise self._error
            return None

    @property
    def ended(self) -> bool:
        """True if nothing will be read any more."""
        with self._changed:
            return self._closed or (not self._queue and self._reading == 0)

    def close(self) -> None:
        """End all readers. Idempotent; may be called from any thread, and by a signal handler.

        A forked process has no readers to wait for, and its copy of the lock may be held for good. A handler may
        interrupt its thread while it has the lock. Therefore the wait is one on the condition, which releases the lock,
        however often the thread has it.
        """
        if self._forks != PROCESS.forks:
            self._closed = True
            return
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for replay in self._replays:
            replay.close()
        own = {threading.current_thread()}
        with self._changed:
            self._changed.wait_for(lambda: self._running <= own)
        for thread in self._threads:
            if thread not in own:
                thread.join()

    @property
    def _is_over(self) -> bool:
        return self._closed or self._error is not None

    def _is_ready(self) -> bool:
        return bool(self._queue) or self._closed or self._error is not None or self._reading == 0

    def _read(self, partition: int, replay: ClosableIterator[StoredPage | Gap]) -> None:
        try:
            for found in replay:
                if not self._put(Read(partition, found)):
                    return
            with self._changed:
                self._reading -= 1
                self._changed.notify_all()
        except ForebayError as error:
            self._fail(error)
        finally:
            try:
                replay.close()
            finally:
                with self._changed:
                    self._running.discard(threading.current_thread())
                    self._changed.notify_all()

    def _put(self, read: Read) -> bool:
        """Queue a page when it is its turn and there is room.

        Returns False if the readers are closed, or one has failed.
        """
        with self._changed:
            self._asking.append(read)
            self._changed.wait_for(lambda: self._is_over or (self._asking[0] is read and self._has_room(read.size)))
            if self._is_over:
                return False
            self._asking.popleft()
            self._queue.append(read)
            self._bytes += read.size
            self._changed.notify_all()
            return True

    def _has_room(self, size: int) -> bool:
        return self._bytes == 0 or self._bytes + size <= self._bytes_max

    def _fail(self, error: ForebayError) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()
