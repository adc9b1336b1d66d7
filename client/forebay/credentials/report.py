"""Periodic report of credential files: logs each warning once a day."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from forebay.credentials.files import CredentialFile, warnings_of

CHECK_INTERVAL_S: Final = 3_600.0
"""Interval between two checks of the files."""

REPEAT_S: Final = 86_400.0
"""Interval between two log events about the same problem."""


class CredentialReport:
    """Warnings about one process's files. Thread-safe; a call between two checks costs nothing."""

    def __init__(
        self,
        files: Sequence[CredentialFile],
        *,
        log: logging.Logger,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        """Use ``clock``, monotonic in seconds, and ``now``, the aware current time."""
        self._files = [file for file in files if file.path]
        self._log = log
        self._clock = clock
        self._now = now
        self._lock = threading.Lock()
        """Protects what follows."""
        self._next_check_at = float("-inf")
        self._logged_at: dict[str, float] = {}
        self._warnings: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the last check."""
        return self._warnings

    def check(self, *, force: bool = False) -> None:
        """Check the files if it is time, or with ``force`` after a change, and log warnings that are due."""
        clock = self._clock()
        if not self._files or (clock < self._next_check_at and not force):
            return
        with self._lock:
            self._next_check_at = clock + CHECK_INTERVAL_S
            self._warnings = warnings_of(self._files, self._now())
            due = [one for one in self._warnings if clock - self._logged_at.get(one, float("-inf")) >= REPEAT_S]
            self._logged_at = {one: self._logged_at.get(one, clock) for one in self._warnings}
            self._logged_at.update(dict.fromkeys(due, clock))
        for one in due:
            self._log.warning("credentials need attention: %s", one)
