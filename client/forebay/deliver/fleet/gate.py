"""Common limit of the deliveries to one target: how many sends are in progress at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock

from forebay.deliver.batches.batch import Batch
from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.errors import TargetClosed
from forebay.deliver.outcome import Outcome
from forebay.deliver.targets.target import Target, TargetContext


class Gate:
    """Sends in progress of several deliveries, first come, first served. Thread-safe.

    A place that becomes free is handed to who has waited longest. A semaphore gives it to who asks first, which is the
    thread that has just left: a delivery with a backlog would hold up all others.
    """

    def __init__(self, concurrency: int) -> None:
        self._lock = Lock()
        """Protects both below; it is never held while waiting."""
        self._free = concurrency
        self._waiting: deque[Event] = deque()

    def __enter__(self) -> None:
        """Wait for a place."""
        with self._lock:
            if self._free and not self._waiting:
                self._free -= 1
                return
            turn = Event()
            self._waiting.append(turn)
        turn.wait()

    def __exit__(self, *_: object) -> None:
        """Leave the place to the next one."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1


class GatedTarget:
    """Target that takes turns, through a gate that it shares with other targets."""

    def __init__(self, target: Target, gate: Gate) -> None:
        self._target, self._gate = target, gate
        self._is_closed = False

    def open(self, context: TargetContext) -> BatchLimits | None:
        """Open the target."""
        return self._target.open(context)

    @contextmanager
    def send_turn(self) -> Iterator[None]:
        """Wait until the gate has room."""
        with self._gate:
            if self._is_closed:  # the answer could not be settled any more
                raise TargetClosed("the delivery ended while it waited for its turn")
            yield

    def send(self, batch: Batch) -> Outcome:
        """Send, within a `send_turn`."""
        return self._target.send(batch)

    def close(self) -> None:
        """Close the target."""
        self._is_closed = True
        self._target.close()
