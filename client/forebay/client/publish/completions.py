"""Completion of the futures of a page, by its receipt or its failure.

A future cannot be cancelled, because its records are in transit.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import Any, Final, Protocol

from forebay.client.errors import ForebayError
from forebay.client.values.records import Receipt

_FUTURE_STATE: Final = frozenset(vars(Future()))
"""Attributes that a future of the standard library has from its creation on."""


class PublishFuture(Future):  # type: ignore[type-arg]  # the kind of its result is its user's business
    """Future that only the publisher can complete."""

    def begin_wait(self) -> None:
        """Note that a caller begins to wait: its records linger no longer."""

    def cancel(self) -> bool:
        """Return ``False``: records in transit cannot be recalled."""
        return False


class Completion(Protocol):
    """Part of a page that belongs to a bulk."""

    def settle(self, receipt: Receipt) -> None:
        """Complete the future: the page is stored with this receipt."""

    def fail(self, error: ForebayError) -> None:
        """Fail the future: the page will not be sent again."""


def _part(receipt: Receipt, index: int, count: int) -> Receipt:
    """Return the receipt of ``count`` records of a page, from ``index`` on."""
    first = receipt.first_offset
    if first is None:
        return receipt
    first += index
    return Receipt(receipt.sink, receipt.partition, first, first + count - 1, receipt.durability, receipt.duplicate)


class PageResult:
    """Result of a page, and those futures of its records that have a state of their own."""

    __slots__ = ("_callers", "_lock", "_on_wait", "_waiting", "outcome", "partition")

    def __init__(
        self, lock: Lock, partition: int = 0, on_wait: Callable[[PageResult], None] = lambda result: None
    ) -> None:
        """``lock`` protects the futures; pages may share it. A caller that begins to wait calls ``on_wait``."""
        self._lock = lock
        self._on_wait = on_wait
        self._waiting: list[RecordFuture] = []
        self._callers: list[Lock] = []
        """Locks on which callers wait; the result releases them."""
        self.partition: Final = partition
        self.outcome: Receipt | ForebayError | None = None
        """Receipt or failure of the page; None while it is in transit."""

    def settle(self, outcome: Receipt | ForebayError) -> None:
        """Complete all futures of the page. Callbacks run here."""
        with self._lock:
            self.outcome = outcome
            waiting, self._waiting = self._waiting, []
            callers, self._callers = self._callers, []
        for caller in callers:
            caller.release()
        for future in waiting:
            future.complete(outcome)

    def wait(self, timeout: float | None) -> Receipt | ForebayError:
        """Wait for the outcome. Raises ``TimeoutError`` after ``timeout`` seconds."""
        self.begin_wait()
        caller = Lock()
        caller.acquire()
        with self._lock:
            if self.outcome is None:
                self._callers.append(caller)
            else:
                caller.release()
        if not caller.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            with self._lock, suppress(ValueError):  # it may have been released meanwhile
                self._callers.remove(caller)
        outcome = self.outcome
        if outcome is None:
            raise TimeoutError
        return outcome

    def begin_wait(self) -> None:
        """Note that a caller begins to wait."""
        self._on_wait(self)

    def build(self, future: RecordFuture) -> None:
        """Build the state of a future, for a wait or a callback. Idempotent."""
        with self._lock:
            if "_condition" in vars(future):
                return
            Future.__init__(future)
            if self.outcome is None:
                self._waiting.append(future)
            else:
                future.complete(self.outcome)


class RecordFuture(PublishFuture):
    """Future of one record, or of a whole page.

    It refers to the result of its page. The lock, the condition and the lists of a future are built by the
    first wait or callback before the page is settled: most futures are dropped, or read afterwards.
    """

    __slots__ = ("index", "page")

    WHOLE: Final = -1
    """Index for the receipt of the whole page."""

    def __init__(self, page: PageResult, index: int) -> None:
        self.page = page
        self.index = index

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the base class, which is built on first use."""
        if name not in _FUTURE_STATE:
            raise AttributeError(name)
        self.page.build(self)
        return vars(self)[name]

    def begin_wait(self) -> None:
        """Note that a caller begins to wait."""
        self.page.begin_wait()

    def done(self) -> bool:
        """Return True if the page is stored or has failed."""
        return self.page.outcome is not None

    def result(self, timeout: float | None = None) -> Receipt:
        """Return the record's own receipt, or raise the failure of its page."""
        outcome = self.page.outcome or self.page.wait(timeout)
        if isinstance(outcome, ForebayError):
            raise outcome
        return self._own(outcome)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the failure of the page, None if it is stored."""
        outcome = self.page.outcome or self.page.wait(timeout)
        return outcome if isinstance(outcome, ForebayError) else None

    def complete(self, outcome: Receipt | ForebayError) -> None:
        """Complete the future, whose state is built."""
        if isinstance(outcome, ForebayError):
            self.set_exception(outcome)
        else:
            self.set_result(self._own(outcome))

    def _own(self, receipt: Receipt) -> Receipt:
        return receipt if self.index == self.WHOLE else _part(receipt, self.index, 1)


class ManyFuture(PublishFuture):
    """Future of records passed in one call."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[int, PageResult] = {}
        """Result of the last page of each partition, which may linger."""

    def result(self, timeout: float | None = None) -> list[Receipt]:
        """Return the receipts, or raise the first failure."""
        self.begin_wait()
        receipts: list[Receipt] = super().result(timeout)
        return receipts

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the first failure, None if all records are stored."""
        self.begin_wait()
        return super().exception(timeout)

    def begin_wait(self) -> None:
        """Note that a caller begins to wait."""
        if not self.done():
            for page in self.pages.values():
                page.begin_wait()


class BulkFuture:
    """Records passed in one call, in one page or several."""

    __slots__ = ("_error", "_future", "_left", "_lock", "_receipts")

    def __init__(self, future: PublishFuture) -> None:
        self._future = future
        self._lock = Lock()
        """Protects what follows: pages complete while later ones are still being built."""
        self._receipts: list[Receipt | None] = []
        self._error: ForebayError | None = None
        self._left = 1  # one for the caller, until `seal`

    def part(self, index: int, count: int) -> BulkPart:
        """Return the completion of ``count`` records of a page from ``index`` on."""
        with self._lock:
            self._receipts.append(None)
            self._left += 1
            return BulkPart(self, len(self._receipts) - 1, index, count)

    def seal(self, error: ForebayError | None = None) -> None:
        """End the registration of completions; ``error`` if some records were not added to a page."""
        self._end_one(None, None, error)

    def settle(self, slot: int, receipt: Receipt) -> None:
        """Record the receipt of one part."""
        self._end_one(slot, receipt, None)

    def fail(self, error: ForebayError) -> None:
        """Record the failure of one part; the future raises the first failure."""
        self._end_one(None, None, error)

    def _end_one(self, slot: int | None, receipt: Receipt | None, error: ForebayError | None) -> None:
        with self._lock:
            if slot is not None:
                self._receipts[slot] = receipt
            self._error = self._error or error
            self._left -= 1
            is_last = not self._left
        if not is_last:
            return
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result([one for one in self._receipts if one is not None])


class BulkPart:
    """Completion of the records of a bulk that are in one page."""

    __slots__ = ("_bulk", "_count", "_index", "_slot")

    def __init__(self, bulk: BulkFuture, slot: int, index: int, count: int) -> None:
        self._bulk = bulk
        self._slot = slot
        self._index = index
        self._count = count

    def settle(self, receipt: Receipt) -> None:
        """Record the receipt of these records."""
        self._bulk.settle(self._slot, _part(receipt, self._index, self._count))

    def fail(self, error: ForebayError) -> None:
        """Record the failure."""
        self._bulk.fail(error)
