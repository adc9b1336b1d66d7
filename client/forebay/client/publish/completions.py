"""Completion of the futures of a page, by its receipt or its failure.

A future cannot be cancelled, because its records are in transit.
"""

from __future__ import annotations

from concurrent.futures import Future
from threading import Lock
from typing import Protocol

from forebay.client.errors import ForebayError
from forebay.client.values.records import Receipt


class PublishFuture(Future):  # type: ignore[type-arg]  # the kind of its result is its user's business
    """Future that only the publisher can complete."""

    def cancel(self) -> bool:
        """Return ``False``: records in transit cannot be recalled."""
        return False


class Completion(Protocol):
    """Part of a page with its own future."""

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


class RecordCompletion:
    """Completion of one record."""

    __slots__ = ("_future", "_index")

    def __init__(self, future: PublishFuture, index: int) -> None:
        self._future = future
        self._index = index

    def settle(self, receipt: Receipt) -> None:
        """Complete the future with the record's own receipt."""
        self._future.set_result(_part(receipt, self._index, 1))

    def fail(self, error: ForebayError) -> None:
        """Complete the future with the failure."""
        self._future.set_exception(error)


class PageCompletion:
    """Completion of a whole page."""

    __slots__ = ("_future",)

    def __init__(self, future: PublishFuture) -> None:
        self._future = future

    def settle(self, receipt: Receipt) -> None:
        """Complete the future with the page's receipt."""
        self._future.set_result(receipt)

    def fail(self, error: ForebayError) -> None:
        """Complete the future with the failure."""
        self._future.set_exception(error)


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
