"""Window of an owner: commits that are appended concurrently, and applied in their order.

A commit begins when its records are on their way to the journal, and its bulk values to the local disk. It is finished
once the journal has confirmed it, after every one before it, and it is applied locally. So the local store is never
ahead of the journal, and nothing names a bulk file before its batch counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.replication.batch import Batch, encode
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.owner import Fenced, OpenGroup, Owner
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.store.contract import Operation, Value

OPEN_MAX: Final = 3
"""Commits that may be open at once."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """``OpenCommit`` of a window."""

    finish: Callable[[], None]


class Window:
    """``CommitWindow`` of a replica and its owner.

    ``begin`` is for one thread at a time, and ``finish`` for one, which may be another.
    """

    size: Final = OPEN_MAX

    def __init__(self, replica: Replica, owner: Owner) -> None:
        self._replica: Final = replica
        self._owner: Final = owner
        self._beside: Final = ThreadPoolExecutor(1, thread_name_prefix="forebay-bulk")
        self._failure = ""
        """Cause for which no further commit is possible; empty before."""
        self._ended = False
        self._begun = 0
        self._confirmed = 0

    @property
    def is_unknown(self) -> bool:
        """True while another broker may own the journal: something is not confirmed, or this window has ended."""
        return self._ended or self._begun != self._confirmed

    def begin(self, bulk: Sequence[tuple[bytes, Value]], operations: Sequence[Operation]) -> _Opened:
        """See ``CommitWindow.begin``."""
        if not bulk and not operations:  # the journal gets no empty batch
            return _Opened(lambda: None)
        batch = Batch(bulk, operations)
        with self._changing():
            self._begun += 1
            prepared = self._beside.submit(self._replica.prepare, batch) if bulk else None
            return _Opened(partial(self._finish, batch, self._owner.begin(encode(batch)), prepared))

    def _finish(self, batch: Batch, group: OpenGroup, prepared: Future[Batch] | None) -> None:
        """Finish the oldest open commit, whose bulk values ``prepared`` writes; see ``OpenCommit.finish``."""
        owner = self._owner
        with self._changing():
            try:
                position = owner.finish(group)
            finally:
                if prepared is not None:
                    wait([prepared])
            self._confirmed += 1
            if prepared is not None:
                batch = prepared.result()
            self._replica.apply(batch, ReaderPosition(position, owner.epoch, owner.identity, group.number + 1))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Refuse a change after one that failed, with the first failure."""
        if self._failure:
            raise StoreFailed("append to the journal", self._failure)
        try:
            yield
        except Fenced as fenced:
            self._note(fenced)
            raise StoreFailed("append to the journal", str(fenced)) from fenced
        except BaseException as failure:
            self._note(failure)
            raise

    def _note(self, failure: BaseException) -> None:
        self._failure = self._failure or f"an earlier append failed: {str(failure) or type(failure).__name__}"

    def end(self) -> None:
        """Refuse every later commit: the journal was given up."""
        self._failure = self._failure or "the journal was given up"
        self._ended = True

    def close(self) -> None:
        """End the thread, after what it has begun to write."""
        self._beside.shutdown()
