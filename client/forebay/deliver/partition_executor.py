"""Executor of deliveries: partitions are processed concurrently, each in order.

Each partition has a queue, of which one delivery is processed at a time. The partitions share a bounded number of
threads and take turns. The credit of the subscription bounds the queues. The threads are daemons: a target that never
returns delays neither `drain` nor the end of the process.

A delivery that waits for its turn or for a thread is healthy, so its ack deadline is extended. In STRICT
order a partition has one deadline, which is up to the delivery in process once there is one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Condition

from forebay.client.transport.threads import GuardedThread
from forebay.deliver.source import SourceDelivery


class PartitionExecutor:
    """Calls ``work`` for each delivery, in order within a partition, for ``threads`` partitions at a time."""

    def __init__(
        self,
        work: Callable[[SourceDelivery], None],
        *,
        threads: int,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._work = work
        self._on_failure = on_failure
        self._threads_max = threads
        self._steps: SimpleQueue[tuple[int, SourceDelivery] | None] = SimpleQueue()
        """Next deliveries of running partitions; None ends a thread."""
        # Protects all below; `drain` waits on it until no partition is running.
        self._idle = Condition()
        self._next: dict[int, SourceDelivery] = {}
        """Delivery of a running partition for which no thread was free yet."""
        self._waiting: dict[int, deque[SourceDelivery]] = {}
        self._running: set[int] = set()
        self._threads = 0
        self._open = True

    def put(self, delivery: SourceDelivery) -> None:
        """Queue a delivery of its partition; ignored after `drain`."""
        with self._idle:
            if not self._open:
                return
            self._waiting.setdefault(delivery.partition, deque()).append(delivery)
            self._start(delivery.partition)

    @property
    def is_idle(self) -> bool:
        """True if no delivery is in process."""
        return not self._running

    def extend_waiting(self) -> None:
        """Extend the ack deadlines of waiting deliveries, where it is due."""
        with self._idle:
            queued = (delivery for queue in self._waiting.values() for delivery in queue if delivery.relaxed)
            waiting = [*self._next.values(), *queued]
        for delivery in waiting:
            delivery.extend()

    def drain(self, timeout_s: float) -> bool:
        """Discard queued deliveries; return True if running ones ended within ``timeout_s``."""
        with self._idle:
            self._open = False
            self._waiting.clear()
            self._next.clear()
            return self._idle.wait_for(lambda: not self._running, timeout_s)

    def close(self) -> None:
        """End the threads; a thread that still runs ends after its send."""
        with self._idle:
            for _ in range(self._threads):
                self._steps.put(None)

    def _start(self, partition: int) -> None:
        queue = self._waiting.get(partition)
        if queue and partition not in self._running:
            self._running.add(partition)
            delivery = self._next[partition] = queue.popleft()
            self._steps.put((partition, delivery))
            if self._threads < min(self._threads_max, len(self._running)):
                self._threads += 1
                name = f"forebay-deliver-worker_{self._threads}"
                GuardedThread(self._serve, name=name, on_fault=self._on_failure).start()

    def _serve(self) -> None:
        """Process steps. Runs on each of the threads."""
        while (step := self._steps.get()) is not None:
            partition, delivery = step
            with self._idle:
                self._next.pop(partition, None)
            error: Exception | None = None
            try:
                self._work(delivery)
            except Exception as failure:  # noqa: BLE001 - reported to the caller of the deliverer
                error = failure
            self._ended(partition, error)

    def _ended(self, partition: int, error: Exception | None) -> None:
        with self._idle:
            self._running.discard(partition)
            if error is not None:  # later deliveries must not overtake a failed one
                self._open = False
                self._waiting.clear()
            if not self._waiting.get(partition):
                self._waiting.pop(partition, None)
            self._start(partition)
            self._idle.notify_all()
        if error is not None:
            self._on_failure(error)
