"""Broadcast event: wakes every waiter, then re-arms."""

from __future__ import annotations

import asyncio


class Pulse:
    """Broadcast event. Take ``next()`` before the check and await it after: no event is missed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def next(self) -> asyncio.Event:
        """Return the event that the next ``fire`` sets."""
        return self._event

    def fire(self) -> None:
        """Wake every waiter."""
        self._event.set()
        self._event = asyncio.Event()
