"""Deliveries whose thread waits for something else than the target.

They are healthy, so their ack deadlines are extended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from forebay.deliver.source import SourceDelivery


class WaitingDeliveries:
    """Deliveries whose ack deadlines another thread extends. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        """Protects the list."""
        self._deliveries: list[SourceDelivery] = []

    @contextmanager
    def extended(self, delivery: SourceDelivery) -> Iterator[None]:
        """Let `extend` extend a delivery within the context."""
        with self._lock:
            self._deliveries.append(delivery)
        try:
            yield
        finally:
            with self._lock:
                self._deliveries.remove(delivery)

    def extend(self) -> None:
        """Extend the ack deadlines, where it is due."""
        with self._lock:
            waiting = list(self._deliveries)
        for delivery in waiting:
            delivery.extend()
