"""Reads all partitions of a sink again, one after another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self

from holdfast.client.errors import InvalidRange
from holdfast.client.replayer import PageReplay, ReplayOptions
from holdfast.client.values import Gap, StoredPage

PAGES_LEFT: Final = 4
"""With about so many pages left of a partition, the next one is opened: its first page comes while these are read."""


def only_one(options: ReplayOptions) -> tuple[str, ...]:
    """Return the names of the options that are for a single partition."""
    given = {"start": options.get("start"), "end": options.get("end"), "follow": options.get("follow") or None}
    return tuple(name for name, value in given.items() if value is not None)


class SinkReplay:
    """Iterator of :class:`StoredPage` and :class:`Gap` over the partitions by number; see :class:`PageReplay`.

    The partitions are those that the sink has when the first page is asked for, and each ends where it ends when it is
    opened. Usable from one thread at a time; ``close`` from any. Iterating raises what :class:`PageReplay` raises, and
    ``InvalidRange`` for what only one partition can have, where the sink has several.
    """

    def __init__(
        self, sink: str, *, count: Callable[[], int], partition: Callable[[int], PageReplay], only_one: tuple[str, ...]
    ) -> None:
        """``count`` asks for the number of partitions; ``only_one`` names the arguments that want a single one."""
        self._sink = sink
        self._count = count
        self._partition = partition
        self._only_one = only_one
        self._closing = threading.Event()
        self._opened: tuple[PageReplay, ...] = ()
        """The one that is read and the one behind it."""
        self._steps = self._read()

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> StoredPage | Gap:
        """Return the next page or gap; ends behind the last partition, or when it is closed."""
        return next(self._steps)

    def close(self) -> None:
        """End the iteration. Closing twice is fine."""
        self._closing.set()
        for one in self._opened:
            one.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _read(self) -> Iterator[StoredPage | Gap]:
        total = self._count()
        if self._only_one and total > 1:
            raise InvalidRange(
                f"sink {self._sink!r} has {total} partitions: name the one that {' and '.join(self._only_one)} is for"
            )
        behind: PageReplay | None = self._partition(0)
        try:
            for number in range(total):
                current, behind = behind, self._partition(number + 1) if number + 1 < total else None
                assert current is not None
                self._opened = (current,) if behind is None else (current, behind)
                if self._closing.is_set():
                    return
                for step in current:
                    if behind is not None and isinstance(step, StoredPage) and current.left <= PAGES_LEFT * len(step):
                        behind.begin()
                    yield step
        finally:
            for one in self._opened:
                one.close()
