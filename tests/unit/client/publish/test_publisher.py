"""The publisher over a real connection, to a broker that a test scripts."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from forebay.client import (
    BrokerUnavailable,
    BufferFull,
    ClientFault,
    DeliveryTimeout,
    FlushTimeout,
    ForebayError,
    InvalidPage,
    Receipt,
    RecordTooLarge,
    SinkNotFound,
    WriterFenced,
)
from forebay.client.errors import Closed
from forebay.client.publish.pages import encode_columns
from forebay.client.publish.sized_columns import HELD_BYTES
from forebay.client.transport.forks import PROCESS
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from tests.support.calls.wire_fake import QUICK, Log, WireFake, abort, status
from tests.support.refusals import failure

Requests = Iterator[pb.PublishRequest]
Responses = Iterator[pb.PublishResponse]


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def abandoned(error: BaseException | None) -> bool:
    return isinstance(error, Closed) and error.reason == "PUBLISH_ABANDONED"


def threads() -> set[str]:
    """Return the names of the threads of publishers in this process, which has those of other tests too."""
    names = {thread.name for thread in threading.enumerate()}
    return {name for name in names if name.startswith(("forebay-publisher", "forebay-answers"))}


@pytest.fixture
def log() -> Log:
    return Log(partitions=4)


@pytest.fixture
def fake(log: Log) -> Iterator[WireFake]:
    with WireFake(Publish=log.publish) as running:
        yield running


def test_a_record_gets_its_receipt(fake: WireFake, log: Log) -> None:
    with fake.client() as client, client.publisher("s") as publisher:
        receipt = publisher.send(b"value", partition=2).result(5)

    assert (receipt.sink, receipt.partition, receipt.first_offset, receipt.last_offset) == ("s", 2, 0, 0)
    assert log.values(2) == [b"value"]
    assert log.closes == 1


def test_everything_of_a_record_arrives(fake: WireFake, log: Log) -> None:
    with fake.client() as client, client.publisher("s", linger_ms=1000) as publisher:
        publisher.send(b"plain", partition=0)
        when = datetime(2026, 1, 1, tzinfo=UTC)
        publisher.send(b"rich", key=b"k", headers=[("h", "1"), ("h", b"2")], event_time=when, partition=0)
        publisher.flush(5)

    (page,) = log.pages[0]
    (run,) = record_pb2.RecordPage.FromString(page.body).runs
    assert list(run.key_lengths) == [2**32 - 1, 1]
    assert run.event_times_us[1] == int(when.timestamp() * 1e6)
    assert [(entry.key, entry.value) for entry in run.headers[1].entries] == [("h", b"1"), ("h", b"2")]


def test_a_key_decides_the_partition(fake: WireFake, log: Log) -> None:
    keys = [f"key-{number}".encode() for number in range(50)]
    with fake.client() as client, client.publisher("s") as publisher:
        receipts = [publisher.send(key, key=key) for key in keys]
        publisher.send_many(keys, keys=keys)
        publisher.flush(5)

    for key, receipt in zip(keys, receipts, strict=True):
        assert receipt.result(0).partition == zlib.crc32(key) % 4
        assert log.values(zlib.crc32(key) % 4).count(key) == 2


def test_records_without_a_key_go_in_turn_page_by_page(fake: WireFake, log: Log) -> None:
    with fake.client() as client, client.publisher("s", page_records=3, linger_ms=10_000) as publisher:
        futures = [publisher.send(b"x") for _ in range(12)]
        publisher.flush(5)

    assert [future.result(0).partition for future in futures] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert [len(pages) for pages in log.pages] == [1, 1, 1, 1]


def test_many_records_are_one_page_where_they_fit(fake: WireFake, log: Log) -> None:
    values = [b"%d" % number for number in range(1000)]
    with fake.client() as client, client.publisher("s") as publisher:
        receipts = publisher.send_many(values, partition=1).result(5)

    assert [(receipt.first_offset, receipt.last_offset) for receipt in receipts] == [(0, 999)]
    assert log.values(1) == values


def test_many_records_are_cut_into_pages_in_order(fake: WireFake, log: Log) -> None:
    values = [bytes([number % 256]) * (number % 700) for number in range(5000)]
    with fake.client() as client, client.publisher("s", page_bytes=100_000) as publisher:
        publisher.send(b"before", partition=1)
        receipts = publisher.send_many(values, partition=1).result(5)
        publisher.send(b"after", partition=1).result(5)

    assert log.values(1) == [b"before", *values, b"after"]
    assert receipts[0].first_offset == 1
    assert [one.first_offset for one in receipts[1:]] == [(one.last_offset or 0) + 1 for one in receipts[:-1]]
    assert receipts[-1].last_offset == 5000
    assert all(len(page.body) <= 100_000 for page in log.pages[1])
    assert sum(len(page.body) for page in log.pages[1]) > 90_000 * (len(log.pages[1]) - 1)


def test_a_record_over_the_page_s_size_is_alone(fake: WireFake, log: Log) -> None:
    large = bytes(3 << 20)
    with fake.client() as client, client.publisher("s", buffer_bytes_max=1 << 20) as publisher:
        publisher.send_many([b"a", large, b"b"], partition=0)
        publisher.send(large, partition=0)
        publisher.flush(5)

    assert [page.record_count for page in log.pages[0]] == [1, 1, 1, 1]
    assert log.values(0) == [b"a", large, b"b", large]


def test_a_ready_page_keeps_its_place(fake: WireFake, log: Log) -> None:
    with fake.client() as client, client.publisher("s", linger_ms=10_000) as publisher:
        publisher.send(b"1", partition=0)
        future = publisher.send_page(encode_columns([b"2", b"3"]), partition=0)
        publisher.send(b"4", partition=0)
        publisher.flush(5)

    assert log.values(0) == [b"1", b"2", b"3", b"4"]
    assert (future.result(0).first_offset, future.result(0).last_offset) == (1, 2)


def test_several_threads_lose_nothing_and_keep_their_own_order(fake: WireFake, log: Log) -> None:
    def work(name: int) -> None:
        for number in range(300):
            if number % 3:
                publisher.send(b"%d-%d" % (name, number), partition=name % 2)
            else:
                publisher.send_many([b"%d-%d" % (name, number)], partition=name % 2)

    with fake.client() as client, client.publisher("s", page_records=7, buffer_bytes_max=2000) as publisher:
        workers = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        publisher.flush(10)

    for name in range(4):
        mine = [value for value in log.values(name % 2) if value.startswith(b"%d-" % name)]
        assert mine == [b"%d-%d" % (name, number) for number in range(300)]


@pytest.mark.parametrize("seed", range(3))
def test_broken_streams_lose_nothing_and_double_nothing(log: Log, seed: int) -> None:
    answered = 0

    def publish(requests: Requests, context: grpc.ServicerContext) -> Responses:
        nonlocal answered
        opened = log.opened(next(requests).open)
        yield pb.PublishResponse(opened=opened)
        for request in requests:
            if request.HasField("close"):
                return
            answer = log.answered(opened.writer_epoch, request.page)
            answered += 1
            if answered % (5 + seed) == 0 and answered < 100:
                context.abort(grpc.StatusCode.UNAVAILABLE, "cut, its last answers unsaid")
            yield pb.PublishResponse(answer=answer)

    with (
        WireFake(Publish=publish) as fake,
        fake.client() as client,
        client.publisher("s", page_records=3, window_pages=8) as publisher,
    ):
        futures = [publisher.send(b"%d" % number, partition=number % 4) for number in range(400)]
        publisher.flush(20)

    for partition in range(4):
        assert log.values(partition) == [b"%d" % number for number in range(partition, 400, 4)]
    for number, future in enumerate(futures):
        assert future.result(0).first_offset == number // 4
    assert len(log.opens) > 2
    assert not log.opens[0].HasField("writer_epoch")
    assert all(one.writer_epoch == 1 for one in log.opens[1:])


def test_a_restarted_broker_finds_the_publisher_again(fake: WireFake, log: Log) -> None:
    with fake.client() as client, client.publisher("s") as publisher:
        publisher.send(b"1", partition=0).result(5)
        fake.stop()
        future = publisher.send(b"2", partition=0)
        fake.start()

        assert future.result(10).first_offset == 1
    assert log.values(0) == [b"1", b"2"]


def test_a_full_sink_holds_up_its_partition_only_and_keeps_its_order(fake: WireFake, log: Log) -> None:
    room = threading.Event()

    def refuse(page: pb.PublishPage) -> Any:
        if page.partition == 0 and not room.is_set():
            return status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL", retry_after_s=0.01)
        return None

    log.refuse = refuse
    with fake.client() as client, client.publisher("s", page_records=2) as publisher:
        held = [publisher.send(b"%d" % number, partition=0) for number in range(20)]
        free = publisher.send(b"free", partition=1)

        assert free.result(5).partition == 1
        assert not held[0].done()
        room.set()
        publisher.flush(10)

    assert log.values(0) == [b"%d" % number for number in range(20)]


def test_pages_of_a_new_writer_after_a_refused_one_come_after_it(fake: WireFake, log: Log) -> None:
    refusals = [status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL", retry_after_s=0.02)]
    log.refuse = lambda page: refusals.pop() if refusals else None
    with fake.client() as client, client.publisher("s", page_records=1) as publisher:
        for number in range(5):
            publisher.send(b"%d" % number, partition=0)
        publisher.flush(10)

    assert log.values(0) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_page_refused_for_good_fails_alone(fake: WireFake, log: Log) -> None:
    def refuse(page: pb.PublishPage) -> Any:
        if page.record_count == 2:
            return status(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_PAGE", "two are one too many")
        return None

    log.refuse = refuse
    with fake.client() as client, client.publisher("s", linger_ms=10_000) as publisher:
        futures: list[Future[Any]] = [publisher.send_page(encode_columns([b"a"]), partition=0)]
        futures.append(publisher.send_page(encode_columns([b"b", b"c"]), partition=0))
        futures += [publisher.send_page(encode_columns([b"d"]), partition=partition) for partition in (0, 1)]
        with pytest.raises(InvalidPage, match="two are one too many"):
            publisher.flush(10)

        assert [future.exception(5) is None for future in futures] == [True, False, True, True]
        publisher.flush(5)  # the failure is raised once

    assert log.values(0) == [b"a", b"d"]
    assert log.values(1) == [b"d"]
    assert [one.HasField("writer_epoch") for one in log.opens] == [False, False]


def test_records_that_are_not_durable_in_time_fail(fake: WireFake, log: Log) -> None:
    log.refuse = lambda page: status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL", retry_after_s=0.05)
    with fake.client() as client:
        publisher = client.publisher("s", delivery_timeout_s=1.5)  # enough for the next record on a busy machine
        future = publisher.send(b"late", partition=0)

        with pytest.raises(DeliveryTimeout):
            future.result(5)
        log.refuse = lambda page: None
        assert publisher.send(b"next", partition=0).result(5).first_offset == 0
        with pytest.raises(DeliveryTimeout):
            publisher.close()


def test_after_giving_up_on_a_stored_page_other_data_is_stored_beside_it(fake: WireFake, log: Log) -> None:
    mute = threading.Event()

    def publish(requests: Requests, context: grpc.ServicerContext) -> Responses:
        opened = log.opened(next(requests).open)
        yield pb.PublishResponse(opened=opened)
        for request in requests:
            if request.HasField("page"):
                answer = log.answered(opened.writer_epoch, request.page)
                if mute.is_set():
                    context.abort(grpc.StatusCode.UNAVAILABLE, "the receipt is lost")
                yield pb.PublishResponse(answer=answer)

    with WireFake(Publish=publish) as running, running.client() as client:
        publisher = client.publisher("s", delivery_timeout_s=2)  # a reconnection takes up to a second
        publisher.send(b"four", partition=0).result(5)
        mute.set()
        lost = publisher.send(b"five", partition=0)
        until(lambda: len(log.values()) == 2)
        running.stop()
        with pytest.raises(DeliveryTimeout):
            lost.result(5)
        mute.clear()
        running.start()

        receipt = publisher.send(b"other", partition=0).result(5)
        with pytest.raises(DeliveryTimeout):
            publisher.close()

    assert log.values() == [b"four", b"five", b"other"]
    assert (receipt.first_offset, receipt.duplicate) == (2, False)


def test_a_broker_that_forgot_confirmed_pages_gets_a_new_epoch(fake: WireFake, log: Log) -> None:
    with fake.client() as client, client.publisher("s") as publisher:
        publisher.send(b"1", partition=0).result(5)
        fake.stop()
        log.expected.clear()
        log.windows.clear()
        log.pages[0].clear()
        fake.start()

        assert publisher.send(b"2", partition=0).result(10).first_offset == 0

    assert [one.HasField("writer_epoch") for one in log.opens] == [False, True, False]


def test_a_fenced_writer_ends_with_what_it_has(fake: WireFake, log: Log) -> None:
    def publish(requests: Requests, context: grpc.ServicerContext) -> Responses:
        yield pb.PublishResponse(opened=log.opened(next(requests).open))
        next(requests)
        abort(context, status(grpc.StatusCode.ABORTED, "WRITER_FENCED"))

    fake.handlers["Publish"] = publish
    with fake.client() as client:
        publisher = client.publisher("s")
        future = publisher.send(b"x", partition=0)

        assert isinstance(future.exception(5), WriterFenced)
        with pytest.raises(WriterFenced):
            publisher.send(b"y")
        with pytest.raises(WriterFenced):
            publisher.flush(5)
        with pytest.raises(WriterFenced):
            publisher.close()
        publisher.close()


def test_send_blocks_at_the_buffer_s_bound(fake: WireFake, log: Log) -> None:
    room = threading.Event()
    full = status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL", retry_after_s=0.01)
    log.refuse = lambda page: None if room.is_set() else full
    sent = 0

    def work() -> None:
        nonlocal sent
        for _ in range(20):
            publisher.send(bytes(400), partition=0)
            sent += 1

    with fake.client() as client, client.publisher("s", buffer_bytes_max=5 * (400 + HELD_BYTES)) as publisher:
        worker = threading.Thread(target=work)
        worker.start()
        until(lambda: sent == 5)
        time.sleep(0.05)

        assert sent == 5
        room.set()
        worker.join(10)
        assert sent == 20


def test_send_raises_at_the_buffer_s_bound_if_it_is_not_to_wait(fake: WireFake, log: Log) -> None:
    room = threading.Event()
    full = status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL", retry_after_s=0.01)
    log.refuse = lambda page: None if room.is_set() else full
    bound = 5 * (400 + HELD_BYTES)
    with fake.client() as client, client.publisher("s", buffer_bytes_max=bound) as publisher:
        for _ in range(5):
            publisher.send(bytes(400), partition=0, wait=False)
        with pytest.raises(BufferFull) as raised:
            publisher.send(bytes(400), partition=0, wait=False)
        room.set()
        publisher.flush(10)
        publisher.send(b"again", partition=0, wait=False)

    assert (raised.value.fact("size"), raised.value.fact("bound")) == (bound, bound)
    assert len(log.values(0)) == 6


@pytest.mark.parametrize(
    ("record", "content", "objects"),
    [
        ({"value": bytes(20)}, 20, 1),
        ({"value": bytes(20), "key": bytes(5)}, 25, 2),
        ({"value": bytes(20), "event_time": 1}, 20, 2),
        ({"value": bytes(20), "key": b"", "headers": {"h": bytes(6)}, "event_time": 1}, 20 + 13, 4),
    ],
)
def test_the_buffer_counts_the_memory_of_each_object_of_a_record(
    fake: WireFake, log: Log, record: dict[str, Any], content: int, objects: int
) -> None:
    with fake.client() as client, client.publisher("s", linger_ms=30_000) as publisher:
        for _ in range(3):
            publisher.send(partition=0, **record)
        held = publisher._buffer.taken_bytes
        publisher.flush(5)
        left = publisher._buffer.taken_bytes

    assert (held, left) == (3 * (content + objects * HELD_BYTES), 0)


def test_records_sent_together_take_as_much_of_the_buffer_as_one_by_one(fake: WireFake, log: Log) -> None:
    with fake.client() as client, client.publisher("s", linger_ms=30_000) as publisher:
        publisher.send_many([bytes(20)] * 4, keys=[b"key"] * 4, partition=0)
        together = publisher._buffer.taken_bytes
        for _ in range(4):
            publisher.send(bytes(20), key=b"key", partition=1)

        assert publisher._buffer.taken_bytes == 2 * together == 8 * (23 + 2 * HELD_BYTES)


@pytest.mark.parametrize(
    "headers",
    [
        {"": b"v"},
        {"n" * 257: b"v"},
        {"n": 7},
        {"n": bytearray(b"v")},
        {"n": None},
        {"n": "\ud800"},
        {"\ud800": b"v"},
        {7: b"v"},
        {b"n": b"v"},
        [("n", b"v", b"w")],
        [(["n"], b"v")],
        {str(number): b"v" for number in range(65)},
    ],
)
def test_headers_that_cannot_be_stored_are_rejected_by_the_call_itself(fake: WireFake, log: Log, headers: Any) -> None:
    with fake.client() as client, client.publisher("s") as publisher:
        for _ in range(2):  # also when the name was seen before
            with pytest.raises(InvalidPage):
                publisher.send(b"x", headers=headers)
        publisher.send(b"y", headers={"n": b"v"}).result(5)

    assert [value for partition in range(4) for value in log.values(partition)] == [b"y"]


def test_headers_are_those_of_the_call_whatever_happens_to_them_later(fake: WireFake, log: Log) -> None:
    headers: dict[str, bytes | str] = {"n": b"1"}
    with fake.client() as client, client.publisher("s", linger_ms=30_000) as publisher:
        publisher.send(b"x", headers=headers, partition=0)
        headers["n"] = b"2"
        publisher.send(b"y", headers=headers, partition=0)

    found = record_pb2.RecordPage.FromString(log.pages[0][0].body).runs[0].headers
    assert [entry.value for one in found for entry in one.entries] == [b"1", b"2"]


def test_threads_that_send_through_a_small_buffer_get_the_receipts_of_their_own_records(
    fake: WireFake, log: Log
) -> None:
    sent: dict[bytes, Future[Receipt]] = {}

    def work(thread: int) -> None:
        for number in range(400):
            value = b"%d-%d" % (thread, number)
            sent[value] = publisher.send(value, partition=number % 2, key=b"k" if number % 7 == 0 else None)

    with fake.client() as client, client.publisher("s", page_records=9, buffer_bytes_max=1024) as publisher:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))
        publisher.flush(30)

    assert len(sent) == 1600
    for partition in range(2):
        stored = log.values(partition)
        assert stored == sorted(stored, key=lambda value: sent[value].result(0).first_offset or 0)
        assert [sent[value].result(0).first_offset for value in stored] == list(range(800))


def test_each_failed_page_is_reported_with_its_number_of_records(fake: WireFake, log: Log) -> None:
    log.refuse = lambda page: status(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_PAGE") if page.partition == 1 else None
    reported: list[tuple[str, int]] = []

    def on_failure(error: ForebayError, records: int) -> None:
        reported.append((error.reason, records))
        raise ValueError("a callback that fails does no harm")

    with fake.client() as client, client.publisher("s", on_failure=on_failure, linger_ms=10_000) as publisher:
        for number in range(10):
            publisher.send(b"x", partition=number % 2)
        with pytest.raises(InvalidPage):
            publisher.flush(10)
        publisher.send(b"y", partition=0)

    assert reported == [("INVALID_PAGE", 5)]
    assert len(log.values(0)) == 6


def test_a_blocked_send_fails_when_the_publisher_ends(fake: WireFake, log: Log) -> None:
    log.refuse = lambda page: status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL", retry_after_s=0.01)
    failures: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(3):
                publisher.send(bytes(1000), partition=0)
        except Closed as error:
            failures.append(error)

    with fake.client() as client:
        publisher = client.publisher("s", buffer_bytes_max=2000)
        worker = threading.Thread(target=work)
        worker.start()
        until(lambda: publisher._buffer.waiting == 1)
        publisher.abandon()
        worker.join(5)

    assert len(failures) == 1


def test_flush_runs_out_of_time_and_can_be_called_again(fake: WireFake, log: Log) -> None:
    full = [status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL", retry_after_s=0.3)]
    log.refuse = lambda page: full.pop() if full else None
    with fake.client() as client, client.publisher("s") as publisher:
        publisher.send(b"x", partition=0)

        with pytest.raises(FlushTimeout, match="1 page is not durable yet"):
            publisher.flush(0.05)
        publisher.flush(5)


def test_linger_gathers_records_and_flush_does_not_wait_for_it(fake: WireFake, log: Log) -> None:
    with fake.client() as client, client.publisher("s", linger_ms=30_000) as publisher:
        for number in range(100):
            publisher.send(b"%d" % number, partition=0)
        started = time.monotonic()
        publisher.flush(5)

        assert time.monotonic() - started < 5
    assert len(log.pages[0]) == 1


def test_a_record_does_not_linger_longer_than_it_should(fake: WireFake) -> None:
    with fake.client() as client, client.publisher("s", linger_ms=20) as publisher:
        started, done = time.monotonic(), threading.Event()
        publisher.send(b"x").add_done_callback(lambda _: done.set())
        assert done.wait(5)

        assert 0.015 < time.monotonic() - started < 2


def test_a_caller_that_waits_ends_the_linger_of_its_page(fake: WireFake, log: Log) -> None:
    with fake.client() as client, client.publisher("s", linger_ms=60_000) as publisher:
        assert publisher.send(b"a", partition=0).result(5).first_offset == 0
        assert publisher.send(b"b", partition=0).exception(5) is None
        assert [one.last_offset for one in publisher.send_many([b"c", b"d"], partition=0).result(5)] == [3]
        many = publisher.send_many([b"e", b"f"], keys=[b"k", None])
        assert many.exception(5) is None

    assert [page.record_count for page in log.pages[0]][:3] == [1, 1, 2]


def test_callers_that_wait_together_share_pages(fake: WireFake, log: Log) -> None:
    arrived, gate = threading.Event(), threading.Event()

    def hold(page: pb.PublishPage) -> None:
        arrived.set()
        assert gate.wait(5)

    log.refuse = hold
    with (
        fake.client() as client,
        client.publisher("s", linger_ms=60_000) as publisher,
        ThreadPoolExecutor(33) as callers,
    ):
        results = [callers.submit(publisher.send(b"first", partition=0).result, 5)]
        assert arrived.wait(5)
        results += [callers.submit(publisher.send(b"x", partition=0).result, 5) for _ in range(32)]
        until(lambda: any(batch.is_awaited for batch in publisher._buffer.batches))
        gate.set()

        assert {result.result(5).first_offset for result in results} == set(range(33))
    assert [page.record_count for page in log.pages[0]] == [1, 32]


def test_wrong_records_are_refused_before_they_are_sent(fake: WireFake, log: Log) -> None:
    with fake.client() as client, client.publisher("s") as publisher:
        with pytest.raises(InvalidPage, match="must be bytes"):
            publisher.send("text")  # type: ignore[arg-type]
        with pytest.raises(InvalidPage, match="must be bytes"):
            publisher.send(b"", key="text")  # type: ignore[arg-type]
        with pytest.raises(RecordTooLarge, match="8388609"):
            publisher.send(bytes((8 << 20) + 1))
        with pytest.raises(RecordTooLarge):
            publisher.send_many([b"a", bytes((8 << 20) + 1)])
        with failure(Reason.INVALID_PARTITION, match="0 to 3"):
            publisher.send(b"", partition=4)
        with pytest.raises(InvalidPage, match="keys has 1 entry: must be 2"):
            publisher.send_many([b"a", b"b"], keys=[b"k"])
        with pytest.raises(InvalidPage, match="time zone"):
            publisher.send(b"", event_time=datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake
        with pytest.raises(InvalidPage, match="at most"):
            publisher.send_page(encode_columns([bytes(1 << 20), b""]), partition=0)
        publisher.flush(5)

    assert log.pages == [[], [], [], []]


def test_a_missing_sink_is_reported_when_the_publisher_is_opened() -> None:
    def publish(requests: Requests, context: grpc.ServicerContext) -> Responses:
        abort(context, status(grpc.StatusCode.NOT_FOUND, "SINK_NOT_FOUND", sink="s"))
        yield pb.PublishResponse()

    with WireFake(Publish=publish) as fake, fake.client() as client, pytest.raises(SinkNotFound):
        client.publisher("s")
    assert threads() == set()


def test_a_broker_that_does_not_come_is_reported_with_the_reason() -> None:
    with WireFake() as fake:
        client = fake.client()
    with client, pytest.raises(BrokerUnavailable, match=r"the publisher of sink 's' could not be opened within 0\.2 s"):
        client.publisher("s", delivery_timeout_s=0.2)
    assert threads() == set()


def test_closing_ends_all_threads_and_refuses_more(fake: WireFake) -> None:
    with fake.client() as client:
        publisher = client.publisher("s")
        publisher.send(b"x")
        publisher.close()

        assert threads() == set()
        with failure(Reason.PUBLISHER_CLOSED):
            publisher.send(b"y")
        publisher.close()


def test_closing_the_client_flushes_its_publishers(fake: WireFake, log: Log) -> None:
    client = fake.client()
    future = client.publisher("s", linger_ms=10_000).send(b"x", partition=0)

    client.close()

    assert future.result(0).first_offset == 0
    assert threads() == set()
    with failure(Reason.CLIENT_CLOSED):
        client.publisher("s")


def test_an_exception_in_the_block_does_not_wait_for_an_outage(fake: WireFake) -> None:
    with fake.client() as client:
        publisher = client.publisher("s")
        fake.stop()
        future = publisher.send(b"x")
        started = time.monotonic()
        with pytest.raises(KeyError, match="the user's own"), publisher:
            raise KeyError("the user's own")

        assert time.monotonic() - started < 5
        assert abandoned(future.exception(0))
    assert threads() == set()


def test_close_with_a_time_out_abandons_what_is_left(fake: WireFake, log: Log) -> None:
    log.refuse = lambda page: status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL", retry_after_s=0.02)
    with fake.client() as client:
        publisher = client.publisher("s")
        future = publisher.send(b"x")

        with pytest.raises(FlushTimeout):
            publisher.close(timeout_s=0.1)
        assert abandoned(future.exception(0))
    assert threads() == set()


def test_a_callback_may_publish(fake: WireFake, log: Log) -> None:
    with fake.client() as client, client.publisher("s") as publisher:
        done = threading.Event()

        def again(_: Future[Any]) -> None:
            publisher.send(b"second", partition=0)
            done.set()

        publisher.send(b"first", partition=0).add_done_callback(again)
        assert done.wait(5)
        publisher.flush(5)

    assert log.values(0) == [b"first", b"second"]


def test_a_callback_may_abandon_the_publisher(fake: WireFake, log: Log) -> None:
    log.refuse = lambda page: status(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_PAGE", "one is too many")
    with fake.client() as client:
        publisher = client.publisher("s")
        done = threading.Event()

        def abandon(_: Future[Any]) -> None:
            publisher.abandon()
            done.set()

        publisher.send(b"first", partition=0).add_done_callback(abandon)
        assert done.wait(10)
        publisher.close(timeout_s=5)

    until(lambda: threads() == set())


def test_a_publisher_is_not_used_across_fork(fake: WireFake, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake.client() as client, client.publisher("s") as publisher:
        with monkeypatch.context() as patch:
            patch.setattr(PROCESS, "forks", PROCESS.forks + 1)
            for use in (lambda: publisher.send(b"x"), publisher.flush, lambda: publisher.send_many([b"x"])):
                with failure(Reason.USED_AFTER_FORK):
                    use()
            publisher.close()  # of the parent's no concern
        publisher.send(b"x").result(5)


@pytest.mark.parametrize(
    ("name", "value"),
    [("page_bytes", 10), ("page_records", 0), ("linger_ms", -1), ("window_pages", 257), ("delivery_timeout_s", 0)],
)
def test_a_setting_that_cannot_work_is_refused_with_its_name(name: str, value: int) -> None:
    with WireFake() as fake, fake.client() as client, failure(Reason.INVALID_SETTING, match=f"{name} = {value}"):
        client.publisher("s", **{name: value})  # type: ignore[arg-type]


def test_a_page_that_the_wire_damaged_is_sent_again_and_stored_once(fake: WireFake, log: Log) -> None:
    refusals = [status(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_CORRUPT") for _ in range(3)]
    log.refuse = lambda page: refusals.pop() if refusals and b"two" in page.body else None
    with fake.client() as client, client.publisher("s", page_records=1) as publisher:
        futures = [publisher.send(value, partition=0) for value in (b"one", b"two", b"three")]
        assert [future.result(10).first_offset for future in futures] == [0, 1, 2]

    assert log.values() == [b"one", b"two", b"three"]


def test_a_page_that_is_damaged_whenever_it_comes_fails_and_the_others_are_stored(fake: WireFake, log: Log) -> None:
    broken = status(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_CORRUPT")
    log.refuse = lambda page: broken if b"two" in page.body else None
    with fake.client() as client:
        publisher = client.publisher("s", page_records=1)
        futures = [publisher.send(value, partition=0) for value in (b"one", b"two", b"three")]
        failures = [type(future.exception(10)).__name__ for future in futures]
        publisher.abandon()

    assert failures == ["NoneType", "PageCorrupt", "NoneType"]


def test_an_unexpected_error_in_the_sender_ends_the_publisher_and_reaches_all_who_wait(
    fake: WireFake, log: Log
) -> None:
    page = encode_columns([b"a"])
    object.__setattr__(page, "record_count", "none")  # cannot be written
    with fake.client() as client:
        publisher = client.publisher("s")
        future = publisher.send_page(page, partition=0)

        assert isinstance(future.exception(10), ClientFault)
        with pytest.raises(ClientFault):
            publisher.send(b"next")
        publisher.abandon()


def test_a_publisher_outlives_a_token_file_that_is_being_replaced(fake: WireFake, log: Log, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    with fake.client(replace(QUICK, token_file=str(token))) as client, client.publisher("s") as publisher:
        publisher.send(b"one", partition=0).result(10)
        token.unlink()
        fake.stop()
        fake.start()
        future = publisher.send(b"two", partition=0)
        until(lambda: "token_file" in str(publisher._stream.last_error))
        token.write_text("second")

        assert future.result(10).first_offset == 1


def test_a_message_that_the_wire_made_senseless_breaks_the_stream_and_not_the_publisher() -> None:
    log = Log()
    left = [3]

    def publish(requests: Requests, context: grpc.ServicerContext) -> Responses:
        opened = log.opened(next(requests).open)
        yield pb.PublishResponse(opened=opened)
        for request in requests:
            if request.HasField("page"):
                if left[0] and b"bad" in request.page.body:
                    left[0] -= 1
                    abort(context, status(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"))
                yield pb.PublishResponse(answer=log.answered(opened.writer_epoch, request.page))

    with WireFake(Publish=publish) as running, running.client() as client:
        publisher = client.publisher("s", page_records=1)
        futures = [publisher.send(value) for value in (b"good", b"bad", b"good again")]
        assert [future.result(10).first_offset for future in futures] == [0, 1, 2]
        publisher.abandon()

    assert left == [0]
    assert log.values() == [b"good", b"bad", b"good again"]
