"""Calls in progress on a store, so that it is not closed during a call.

A call of RocksDB after its close crashes the process, so every call is counted here, and a close waits for them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from forebay.broker.storage.errors import StoreClosed


class Usage:
    """Counter of the calls in progress, until ``end``."""

    def __init__(self) -> None:
        """Start open, without calls."""
        self._changed = threading.Condition()  # guards the next two; only ``end`` waits on it
        self._calls = 0
        self._ended = False

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call in progress. Raises ``StoreClosed`` after ``end``."""
        with self._changed:
            if self._ended:
                raise StoreClosed
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def end(self) -> bool:
        """Reject new calls and wait for those in progress; ``False`` if it had ended before."""
        with self._changed:
            if self._ended:
                return False
            self._ended = True
            self._changed.wait_for(lambda: self._calls == 0)
            return True
