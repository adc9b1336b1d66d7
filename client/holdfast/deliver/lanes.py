"""Partitions side by side, each in order.

A lane holds one partition's deliveries and hands them out one at a time; lanes share a bounded number of
threads and take turns. What waits in the lanes is bounded by the subscription's credit.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from holdfast.deliver.source import SourceDelivery


class Lanes:
    """Calls ``work`` for each delivery: in order within a partition, ``threads`` partitions at a time."""

    def __init__(
        self,
        work: Callable[[SourceDelivery], None],
        *,
        threads: int,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._work = work
        self._on_failure = on_failure
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="holdfast-deliver-lane")
        # Protects the three below; `drain` waits on it until no lane is running.
        self._idle = Condition()
        self._waiting: dict[int, deque[SourceDelivery]] = {}
        self._running: set[int] = set()
        self._open = True

    def put(self, delivery: SourceDelivery) -> None:
        """Queue a delivery in its partition's lane; after `drain` it is left alone."""
        with self._idle:
            if not self._open:
                return
            self._waiting.setdefault(delivery.partition, deque()).append(delivery)
            self._start(delivery.partition)

    def drain(self, timeout_s: float) -> bool:
        """Leave what waits, and return whether what runs ended within ``timeout_s``."""
        with self._idle:
            self._open = False
            self._waiting.clear()
            return self._idle.wait_for(lambda: not self._running, timeout_s)

    def close(self) -> None:
        """Let the threads go; one that still runs ends with its send."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self, partition: int) -> None:
        queue = self._waiting.get(partition)
        if queue and partition not in self._running:
            self._running.add(partition)
            step = self._pool.submit(self._work, queue.popleft())
            step.add_done_callback(lambda ended: self._ended(partition, ended))

    def _ended(self, partition: int, step: Future[None]) -> None:
        error = None if step.cancelled() else step.exception()
        with self._idle:
            self._running.discard(partition)
            if error is not None:  # what follows must not overtake what failed
                self._open = False
                self._waiting.clear()
            if not self._waiting.get(partition):
                self._waiting.pop(partition, None)
            self._start(partition)
            self._idle.notify_all()
        if error is not None:
            self._on_failure(error)
