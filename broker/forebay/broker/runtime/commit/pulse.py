"""A moment that many may wait for, again and again."""

from __future__ import annotations

import asyncio


class Pulse:
    """Take ``next()`` before you look, wait for it after you have found nothing: no moment is missed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def next(self) -> asyncio.Event:
        """An event that the next ``fire`` sets."""
        return self._event

    def fire(self) -> None:
        """Wake everyone who waits."""
        self._event.set()
        self._event = asyncio.Event()
