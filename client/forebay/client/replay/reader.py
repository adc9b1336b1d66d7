"""What is read step by step, and closed: deliveries, pages, records."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Self, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Reading(Iterator[T_co]):
    """An iterator that is closed, at the latest by the ``with`` that it is used in."""

    @abstractmethod
    def close(self) -> None:
        """End the iteration. Closing twice is fine."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
