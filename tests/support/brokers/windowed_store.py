"""Stores with several open commits, each of which has its effect once it is finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.store.contract import CommitWindow, Operation, Store, Value
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.held_store import Door

OPEN_MAX: Final = 3


@dataclass(frozen=True)
class _Open:
    finish: Callable[[], None]


class LateCommits:
    """``CommitWindow`` of a store without one."""

    size: Final = OPEN_MAX

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, bulk: Sequence[tuple[bytes, Value]], operations: Sequence[Operation]) -> _Open:
        """Write the bulk values ahead; see ``CommitWindow.begin``."""
        if bulk:
            self._store.ingest(bulk)
        return _Open(lambda: self._store.commit((), operations))


class WindowedStore(MemoryStore):
    """A memory store with a window. A test can hold the ends of its commits up, one by one."""

    size: Final = OPEN_MAX

    def __init__(self) -> None:
        super().__init__()
        self.ends = Door()
        self.begun = 0
        self.fails_at = 0
        """Number of the commit that cannot begin; 0 for none."""
        self.on_begin: Callable[[], object] = lambda: None

    def window(self) -> CommitWindow | None:
        """See ``Store.window``."""
        return self

    def begin(self, bulk: Sequence[tuple[bytes, Value]], operations: Sequence[Operation]) -> _Open:
        """See ``CommitWindow.begin``."""
        self.on_begin()
        self.begun += 1
        if self.begun == self.fails_at:
            raise StoreFailed("append", "it could not begin")

        def finish() -> None:
            self.ends.go_through()
            self.commit(bulk, operations)

        return _Open(finish)
