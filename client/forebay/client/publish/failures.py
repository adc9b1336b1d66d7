"""Failures of pages since the last flush."""

from __future__ import annotations

import copy

from forebay.client.errors import ForebayError


class FailureLog:
    """First failure and number of failures. Not thread-safe: the buffer owns it."""

    def __init__(self) -> None:
        self._first: ForebayError | None = None
        self._count = 0

    def add(self, error: ForebayError) -> None:
        """Record the failure of a page."""
        self._first = self._first or error
        self._count += 1

    def pop(self) -> ForebayError | None:
        """Return the first failure since the last call, with the number of the others, and reset the log."""
        if self._first is None:
            return None
        error = copy.copy(self._first)
        if self._count > 1:
            error.add_note(f"{self._count} pages failed since the last flush; this is the first failure")
        self._first, self._count = None, 0
        return error
