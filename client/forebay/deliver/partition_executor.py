"""Executor of deliveries: partitions are processed concurrently, each in order.

Each partition has a queue, of which one delivery is processed at a time. The partitions share a bounded number of
threads and take turns. The credit of the subscription bounds the queues. The threads are daemons: a target that never
returns delays neither `drain` nor the end of the process.

A delivery that waits for its turn or for a thread is healthy, so its ack deadline is extended. In STRICT
order a partition has one deadline, which is up to the delivery in process once there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Condition
from time import monotonic

from forebay.client.transport.threads import GuardedThread
from forebay.deliver.batches.delivery_queue import DeliveryQueue, records_of
from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.source import SourceDelivery


class PartitionExecutor:
    """Calls ``work`` for each delivery, in order within a partition, for ``threads`` partitions at a time."""

    def __init__(
        self,
        work: Callable[[SourceDelivery], None],
        *,
        threads: int,
        on_failure: Callable[[BaseException], None],
        limits_of: Callable[[SourceDelivery], BatchLimits],
        credit_records: int,
        credit_bytes: int,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """``limits_of`` returns the limits of the batches of a delivery.

        ``credit_*`` are what the queues may hold. Once they hold half of either, no batch waits for further records:
        none might come.
        """
        self._work = work
        self._on_failure = on_failure
        self._threads_max = threads
        self._limits_of = limits_of
        self._records_max, self._bytes_max = credit_records / 2, credit_bytes / 2
        self._clock = clock
        self._steps: SimpleQueue[int | None] = SimpleQueue()
        """Partitions whose next batch is due; None ends a thread."""
        # Protects all below. `drain` waits on it until no partition is running, and the timer until a batch is due.
        self._idle = Condition()
        self._waiting: dict[int, DeliveryQueue] = {}
        self._records = self._bytes = 0
        """Records and stored bytes in the queues."""
        self._running: set[int] = set()
        """Partitions that a thread processes, or that are among the steps."""
        self._processed: set[int] = set()
        """Those that a thread processes."""
        self._threads = 0
        self._has_timer = False
        self._open = True

    def put(self, delivery: SourceDelivery) -> None:
        """Queue a delivery of its partition; ignored after `drain`."""
        with self._idle:
            if not self._open:
                return
            queue = self._waiting.setdefault(delivery.partition, DeliveryQueue(self._limits_of))
            queue.append(delivery, self._clock())
            was_crowded = self._is_crowded()
            self._count(delivery, 1)
            if self._is_crowded() and not was_crowded:  # afterwards each partition starts by itself
                for partition in list(self._waiting):
                    self._start(partition)
            else:
                self._start(delivery.partition)

    @property
    def is_idle(self) -> bool:
        """True if no delivery is in process."""
        return not self._running

    def extend_waiting(self) -> None:
        """Extend the ack deadlines of waiting deliveries, where it is due."""
        with self._idle:
            waiting = [
                delivery
                for partition, queue in self._waiting.items()
                for index, delivery in enumerate(queue)
                if delivery.relaxed or (index == 0 and partition not in self._processed)
            ]
        for delivery in waiting:
            delivery.extend()

    def drain(self, timeout_s: float) -> bool:
        """Discard queued deliveries; return True if running ones ended within ``timeout_s``."""
        with self._idle:
            self._open = False
            self._waiting.clear()
            self._idle.notify_all()
            return self._idle.wait_for(lambda: not self._running, timeout_s)

    def close(self) -> None:
        """End the threads; a thread that still runs ends after its send."""
        with self._idle:
            for _ in range(self._threads):
                self._steps.put(None)

    def _count(self, delivery: SourceDelivery, sign: int) -> None:
        self._records += sign * records_of(delivery)
        self._bytes += sign * delivery.stored_bytes

    def _is_crowded(self) -> bool:
        return self._records >= self._records_max or self._bytes >= self._bytes_max

    def _start(self, partition: int) -> None:
        """Let a thread process the next batch of a partition, once it is due."""
        queue = self._waiting.get(partition)
        if not queue or partition in self._running:
            return
        if not (queue.is_full or self._is_crowded() or queue.due_at_s <= self._clock()):
            if not self._has_timer:
                self._has_timer = True
                GuardedThread(self._time, name="forebay-deliver-timer", on_fault=self._on_failure).start()
            self._idle.notify_all()  # the timer
            return
        self._running.add(partition)
        self._steps.put(partition)
        if self._threads < min(self._threads_max, len(self._running)):
            self._threads += 1
            name = f"forebay-deliver-worker_{self._threads}"
            GuardedThread(self._serve, name=name, on_fault=self._on_failure).start()

    def _time(self) -> None:
        """Start the batches that are due. Runs on the timer's thread until `drain`."""
        with self._idle:
            while self._open:
                pending = [(queue.due_at_s, partition) for partition, queue in self._waiting.items()
                           if queue and partition not in self._running]  # fmt: skip
                now = self._clock()
                for due_at_s, partition in pending:
                    if due_at_s <= now:
                        self._start(partition)
                later = [due_at_s - now for due_at_s, _ in pending if due_at_s > now]
                self._idle.wait(min(later, default=None))

    def _serve(self) -> None:
        """Process steps. Runs on each of the threads."""
        while (partition := self._steps.get()) is not None:
            delivery = self._take(partition)
            error: Exception | None = None
            if delivery is not None:
                try:
                    self._work(delivery)
                except Exception as failure:  # noqa: BLE001 - reported to the caller of the deliverer
                    error = failure
            self._ended(partition, error)

    def _take(self, partition: int) -> SourceDelivery | None:
        """Return what is to be processed next of a partition; None after `drain`."""
        with self._idle:
            queue = self._waiting.get(partition)
            if not queue:
                return None
            delivery = queue.take()
            self._count(delivery, -1)
            self._processed.add(partition)
            return delivery

    def _ended(self, partition: int, error: Exception | None) -> None:
        with self._idle:
            self._running.discard(partition)
            self._processed.discard(partition)
            if error is not None:  # later deliveries must not overtake a failed one
                self._open = False
                self._waiting.clear()
            if not self._waiting.get(partition):
                self._waiting.pop(partition, None)
            self._start(partition)
            self._idle.notify_all()
        if error is not None:
            self._on_failure(error)
