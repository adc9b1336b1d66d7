"""Closable asynchronous iterator, the base of subscribers and replays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import Protocol, Self, TypeVar

from forebay.client.transport.io import Io

T_co = TypeVar("T_co", covariant=True)


class ClosableIterator(AsyncIterator[T_co]):
    """Asynchronous iterator that can be closed and used as a context manager."""

    @abstractmethod
    async def close(self) -> None:
        """End the iteration. Idempotent."""

    async def __aenter__(self) -> Self:
        """Return the iterator itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the iterator."""
        await self.close()


class Steps(Protocol[T_co]):
    """Source of an iterator."""

    async def step(self) -> T_co | None:
        """Return the next item; None at the end."""

    def close(self) -> None:
        """End the source."""


class StepIterator(ClosableIterator[T_co]):
    """Iterator of the items of a source. A task that is cancelled while it waits loses no item."""

    def __init__(self, io: Io, steps: Steps[T_co]) -> None:
        self._io = io
        self._steps = steps

    async def __anext__(self) -> T_co:
        """Return the next item, waiting for it."""
        self._io.check()
        step = await self._steps.step()
        if step is None:
            raise StopAsyncIteration
        return step

    async def close(self) -> None:
        """End the iteration. Idempotent."""
        self._io.check()
        self._steps.close()
