"""Connections of the HTTP target, whose certificate files may be replaced while it runs.

A changed file takes effect with the next request, on new connections; requests in progress end on the old ones. Files
that cannot be used leave everything as it is, with a warning.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Final

import httpcore2

from forebay.deliver.errors import InvalidOption

_log = logging.getLogger("forebay.deliver")

RETRY_S: Final = 60.0
"""Interval at which files that could not be used are tried again, unless they change."""

_State = tuple[tuple[int, int, int] | None, ...]
"""Modification time in ns, size and inode of each file; None for one that cannot be examined."""


class _Connections:
    """A pool and the number of requests that use it."""

    def __init__(self, pool: httpcore2.ConnectionPool) -> None:
        self.pool = pool
        self.users = 0


class RenewablePool:
    """Connection pool that is replaced when a file changes. Thread-safe."""

    def __init__(
        self,
        make: Callable[[], httpcore2.ConnectionPool],
        files: Sequence[str],
        *,
        place: str,
        clock: Callable[[], float],
    ) -> None:
        """Use ``make``, which reads the files and raises `InvalidOption` if one cannot be used."""
        self._make = make
        self._files = files
        self._place = place
        self._clock = clock
        self._lock = Lock()
        """Protects what follows."""
        self._state = self._read_state()
        self._retry_at = float("inf")
        """Time at which files that could not be used are tried again."""
        self._current = _Connections(make())

    @contextmanager
    def used(self) -> Iterator[httpcore2.ConnectionPool]:
        """Return the pool for one request."""
        with self._lock:
            ended = self._renewed()
            connections = self._current
            connections.users += 1
        if ended is not None:
            ended.close()
        try:
            yield connections.pool
        finally:
            with self._lock:
                connections.users -= 1
                is_over = connections is not self._current and not connections.users
            if is_over:
                connections.pool.close()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            pool = self._current.pool
        pool.close()

    def _renewed(self) -> httpcore2.ConnectionPool | None:
        """Replace the pool if a file has changed; return the old one if it is to be closed."""
        if not self._files:
            return None
        state = self._read_state()
        has_changed = state != self._state
        if not has_changed and self._clock() < self._retry_at:
            return None
        self._state = state
        try:
            pool = self._make()
        except InvalidOption as error:
            self._retry_at = self._clock() + RETRY_S
            if has_changed:
                _log.warning("changed certificates were not taken, the old ones are used: %s", error)
            return None
        self._retry_at = float("inf")
        before, self._current = self._current, _Connections(pool)
        _log.info("certificates were read again target=%s", self._place)
        return None if before.users else before.pool

    def _read_state(self) -> _State:
        return tuple(_state_of(file) for file in self._files)


def _state_of(file: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
