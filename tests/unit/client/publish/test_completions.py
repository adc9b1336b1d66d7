"""The futures behind a page."""

from __future__ import annotations

import pytest

from forebay.client import DeliveryTimeout, Durability, Receipt
from forebay.client.publish.completions import BulkFuture, PageCompletion, PublishFuture, RecordCompletion

RECEIPT = Receipt("s", 2, 100, 109, Durability.DISK, duplicate=False)
OLD = Receipt("s", 2, None, None, Durability.DISK, duplicate=True)


def test_a_record_gets_its_own_offset() -> None:
    future = PublishFuture()

    RecordCompletion(future, 3).settle(RECEIPT)

    receipt = future.result(0)
    assert (receipt.first_offset, receipt.last_offset) == (103, 103)


def test_a_page_gets_the_whole_receipt() -> None:
    future = PublishFuture()

    PageCompletion(future).settle(RECEIPT)

    assert future.result(0) is RECEIPT


def test_a_receipt_without_offsets_stays_one() -> None:
    future = PublishFuture()

    RecordCompletion(future, 3).settle(OLD)

    assert future.result(0) is OLD


def test_many_records_get_their_part_of_each_page_in_order() -> None:
    future = PublishFuture()
    bulk = BulkFuture(future)
    first, second = bulk.part(8, 2), bulk.part(0, 5)
    bulk.seal()

    second.settle(Receipt("s", 3, 0, 9, Durability.DISK, duplicate=False))
    assert not future.done()
    first.settle(RECEIPT)

    spans = [(receipt.first_offset, receipt.last_offset) for receipt in future.result(0)]
    assert spans == [(108, 109), (0, 4)]


def test_a_bulk_is_not_over_while_more_of_it_may_come() -> None:
    future = PublishFuture()
    bulk = BulkFuture(future)
    bulk.part(0, 1).settle(RECEIPT)

    assert not future.done()
    bulk.seal()
    assert len(future.result(0)) == 1


def test_the_first_failure_of_a_bulk_is_what_it_raises() -> None:
    future = PublishFuture()
    bulk = BulkFuture(future)
    completions = [bulk.part(0, 1) for _ in range(3)]
    bulk.seal()

    completions[0].settle(RECEIPT)
    completions[1].fail(DeliveryTimeout("first"))
    completions[2].fail(DeliveryTimeout("second"))

    with pytest.raises(DeliveryTimeout, match="first"):
        future.result(0)


def test_nothing_at_all_is_over_at_once() -> None:
    future = PublishFuture()

    BulkFuture(future).seal()

    assert future.result(0) == []


def test_a_future_cannot_be_cancelled() -> None:
    future = PublishFuture()

    assert not future.cancel()
    RecordCompletion(future, 0).settle(RECEIPT)
    assert future.done()
