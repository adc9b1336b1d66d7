"""Broadcast event: wakes every waiter, then re-arms."""

from __future__ import annotations

import asyncio


class Pulse:
    """Broadcast event. Take ``next()`` before the check and await it after: no event is missed."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None
        """The event of those that wait, if any."""

    def next(self) -> asyncio.Event:
        """Return the event that the next ``fire`` sets."""
        if self._event is None:
            self._event = asyncio.Event()
        return self._event

    def fire(self) -> None:
        """Wake every waiter."""
        if self._event is not None:
            self._event.set()
            self._event = None
