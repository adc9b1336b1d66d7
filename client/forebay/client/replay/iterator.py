"""Closable iterator, the base of subscribers and replays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Self, TypeVar

T_co = TypeVar("T_co", covariant=True)


class ClosableIterator(Iterator[T_co]):
    """Iterator that can be closed and used as a context manager."""

    @abstractmethod
    def close(self) -> None:
        """End the iteration. Idempotent."""

    def __enter__(self) -> Self:
        """Return the iterator itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the iterator."""
        self.close()
