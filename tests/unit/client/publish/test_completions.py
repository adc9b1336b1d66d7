"""The futures of a page."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait

import pytest

from forebay.client import DeliveryTimeout, Durability, Receipt
from forebay.client.publish.completions import BulkFuture, PageResult, PublishFuture, RecordFuture

pytestmark = pytest.mark.anyio
RECEIPT = Receipt("s", 2, 100, 109, Durability.DISK, duplicate=False)
OLD = Receipt("s", 2, None, None, Durability.DISK, duplicate=True)


def page() -> PageResult:
    return PageResult(threading.Lock())


def whole(result: PageResult) -> RecordFuture:
    return RecordFuture(result, RecordFuture.WHOLE)


def test_a_record_gets_its_own_offset() -> None:
    result = page()
    future = RecordFuture(result, 3)

    result.settle(RECEIPT)

    receipt = future.result(0)
    assert (receipt.first_offset, receipt.last_offset) == (103, 103)


def test_a_page_gets_the_whole_receipt() -> None:
    result = page()
    future = whole(result)

    result.settle(RECEIPT)

    assert future.result(0) is RECEIPT


def test_a_receipt_without_offsets_stays_one() -> None:
    result = page()
    future = RecordFuture(result, 3)

    result.settle(OLD)

    assert future.result(0) is OLD


def test_a_future_without_a_waiting_caller_has_no_state_of_its_own() -> None:
    result = page()
    future = RecordFuture(result, 3)

    before = future.done()
    result.settle(RECEIPT)

    assert (before, future.done(), future.exception(), future.result().first_offset) == (False, True, None, 103)
    assert vars(future) == {}


def test_a_waiting_thread_gets_the_receipt() -> None:
    result = page()
    future = RecordFuture(result, 3)
    waits = threading.Event()
    with ThreadPoolExecutor(1) as threads:

        def wait_for_it() -> Receipt:
            future.add_done_callback(lambda done: None)
            waits.set()
            return future.result(30)

        waiting = threads.submit(wait_for_it)
        waits.wait(30)
        result.settle(RECEIPT)

        assert waiting.result(30).first_offset == 103


def test_a_wait_ends_in_time_and_may_be_repeated() -> None:
    result = page()
    future = RecordFuture(result, 3)

    with pytest.raises(TimeoutError):
        future.result(0.001)
    with pytest.raises(TimeoutError):
        future.exception(0.001)
    result.settle(RECEIPT)

    assert future.result(0).first_offset == 103


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_callback_is_called_once_with_the_future_whenever_it_was_added(is_settled: bool) -> None:
    result, called = page(), list[Future[Receipt]]()
    future = RecordFuture(result, 3)
    if is_settled:
        result.settle(RECEIPT)
    future.add_done_callback(called.append)
    if not is_settled:
        result.settle(RECEIPT)

    assert called == [future]


def test_all_records_of_a_failed_page_raise_its_failure() -> None:
    result = page()
    waited, later = RecordFuture(result, 0), RecordFuture(result, 1)
    waited.add_done_callback(lambda done: None)
    error = DeliveryTimeout("late")

    result.settle(error)

    assert (waited.exception(), later.exception()) == (error, error)
    for future in (waited, later):
        with pytest.raises(DeliveryTimeout, match="late"):
            future.result(0)


@pytest.mark.parametrize("is_settled", [False, True])
def test_the_standard_library_waits_on_them_as_on_its_own(is_settled: bool) -> None:
    result = page()
    futures = [RecordFuture(result, index) for index in range(3)]
    if is_settled:
        result.settle(RECEIPT)
    else:
        threading.Timer(0.01, result.settle, [RECEIPT]).start()

    done, not_done = wait(futures, 30)

    assert (done, not_done) == (set(futures), set())
    assert {future.result().first_offset for future in as_completed(futures, 30)} == {100, 101, 102}


async def test_asyncio_waits_on_them() -> None:
    result = page()
    wrapped = asyncio.wrap_future(RecordFuture(result, 2))
    threading.Timer(0.01, result.settle, [RECEIPT]).start()

    assert (await wrapped).first_offset == 102


def test_threads_that_build_the_state_at_once_build_one() -> None:
    result = page()
    future = RecordFuture(result, 0)
    together = threading.Barrier(8)

    def wait_for_it() -> Receipt:
        together.wait(30)
        return future.result(30)

    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(wait_for_it) for _ in range(8)]
        threading.Timer(0.01, result.settle, [RECEIPT]).start()

        assert {each.result(30).first_offset for each in waiting} == {100}


def test_a_future_has_no_other_attributes() -> None:
    assert not hasattr(RecordFuture(page(), 0), "receipt")


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
    result = page()
    future = RecordFuture(result, 0)

    assert (future.cancel(), future.cancelled()) == (False, False)
    result.settle(RECEIPT)
    assert future.done()
