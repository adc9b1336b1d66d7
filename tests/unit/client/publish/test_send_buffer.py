"""Send buffer and sender together, without a stream: which records a page has."""

from __future__ import annotations

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.client.errors import BufferFull, Closed
from forebay.client.publish.batches import Batch
from forebay.client.publish.send_buffer import SendBuffer
from forebay.client.publish.sender import PublishStreamState, Sender
from forebay.client.publish.sized_columns import HELD_BYTES, SizedColumns
from forebay.client.settings import PublisherSettings
from forebay.client.telemetry import Telemetry
from forebay.client.transport.operations import blocked
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from tests.support.calls.wire_fake import status


@pytest.fixture
def buffer() -> SendBuffer:
    return SendBuffer(PublisherSettings(linger_ms=60_000), Telemetry("s"), lambda: 0.0)


@pytest.fixture
def stream() -> PublishStreamState:
    return PublishStreamState()


@pytest.fixture
def sender(buffer: SendBuffer, stream: PublishStreamState) -> Sender:
    """Return the sender of an open stream."""
    opened = pb.PublishOpened(partitions=1, page_bytes_max=1 << 20, record_bytes_max=1 << 20)
    found = Sender(buffer)
    found.opened(stream, opened, "s", resumed=False)
    return found


def test_records_that_are_added_before_the_sender_runs_share_the_page_of_a_waiting_caller(
    buffer: SendBuffer, sender: Sender, stream: PublishStreamState
) -> None:
    buffer.put(0, b"a", 1).begin_wait()
    buffer.put(0, b"b", 1).begin_wait()

    taken = blocked(sender.take(stream))

    assert taken is not None
    assert (taken[0].values, taken[1]) == ([b"a", b"b"], 0)


def test_a_staged_publisher_ends_with_its_page_that_expired_although_another_page_is_rejected_meanwhile() -> None:
    now = 0.0
    buffer = SendBuffer(PublisherSettings(linger_ms=0, delivery_timeout_s=10), Telemetry("s"), lambda: now)
    sender, stream = Sender(buffer, renews=False), PublishStreamState()
    opened = pb.PublishOpened(partitions=2, page_bytes_max=1 << 20, record_bytes_max=1 << 20)
    sender.opened(stream, opened, "s", resumed=False)
    full = status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL")
    first = buffer.put(0, b"a", 1)
    blocked(sender.take(stream))
    now = 5.0
    buffer.put(1, b"b", 1)
    blocked(sender.take(stream))
    sender.answered([pb.PublishAnswer(partition=0, sequence=0, refusal=full)], "s")
    rejected = pb.PublishAnswer(partition=1, sequence=0, refusal=full)
    first.add_done_callback(lambda _: sender.answered([rejected], "s"))
    now = 10.1

    blocked(sender.await_change(None, now + 1))

    error = sender.fatal_error()
    assert error is not None
    assert (error.reason, error.retryable) == (Reason.DELIVERY_TIMEOUT.name, False)


@given(
    records=st.lists(
        st.tuples(
            st.binary(max_size=5),
            st.none() | st.binary(max_size=5),
            st.none() | st.integers(0, 9),
            st.sampled_from([b"", b"headers"]),
        ),
        min_size=1,
        max_size=20,
    ),
)
def test_a_page_has_the_records_and_sizes_of_a_batch_that_they_are_added_to_one_by_one(
    records: list[tuple[bytes, bytes | None, int | None, bytes]],
) -> None:
    buffer, expected = SendBuffer(PublisherSettings(linger_ms=60_000), Telemetry("s"), lambda: 0.0), Batch(0, 0.0, 1)
    buffer.partitions = 1
    for number, (value, key, time, headers) in enumerate(records):
        size = len(value) + len(key or b"") + len(headers)
        held = size + HELD_BYTES * (1 + (key is not None) + (time is not None) + bool(headers))
        if key is None and time is None and not headers:
            future = buffer.put(0, value, size)
        else:
            future = buffer.put_rich(0, value, key, time, headers, size, held)
        expected.add(value, key, time, headers, size, held)
        assert (future.page, future.index) == (buffer.batches.by_partition[0].result, number)

    found = buffer.batches.by_partition[0]
    assert buffer.taken_bytes == expected.held_bytes <= buffer.reserved_bytes
    with buffer.lock:
        buffer.seal(0)

    assert (found.values, found.keys, found.event_times_us, found.headers) == (
        *(expected.values, expected.keys, expected.event_times_us, expected.headers),
    )
    assert (found.body_bytes, found.held_bytes) == (expected.body_bytes, expected.held_bytes)
    assert buffer.taken_bytes == buffer.reserved_bytes == expected.held_bytes


def buffer_of(*, partitions: int = 2, **settings: int) -> SendBuffer:
    """A buffer that keeps its pages open."""
    made = SendBuffer(PublisherSettings(linger_ms=60_000, **settings), Telemetry("s"), lambda: 0.0)
    made.partitions = partitions
    made.record_bytes_max = 1 << 20
    return made


def test_the_room_that_an_open_page_was_granted_is_there_for_other_pages() -> None:
    buffer = buffer_of(buffer_bytes_max=1024)
    buffer.put(0, b"x" * 10, 10, wait=False)
    taken = 10 + HELD_BYTES
    while taken + 10 + HELD_BYTES <= 1024:
        buffer.put(1, b"x" * 10, 10, wait=False)
        taken += 10 + HELD_BYTES

    assert buffer.taken_bytes == taken
    with pytest.raises(BufferFull):
        buffer.put(1, b"x" * 10, 10, wait=False)


def test_a_large_record_takes_the_room_that_another_page_was_granted() -> None:
    buffer = buffer_of(buffer_bytes_max=1024)
    buffer.put(0, b"x" * 10, 10, wait=False)

    buffer.put(1, b"x" * 900, 900, wait=False)

    assert buffer.taken_bytes == 910 + 2 * HELD_BYTES


def test_many_records_fit_into_the_page_that_single_ones_have_begun() -> None:
    buffer = buffer_of(partitions=1, page_bytes=3_000)
    for size in (1, *[40] * 20):
        buffer.put(0, b"x" * size, size)

    blocked(buffer.put_many(0, SizedColumns.of([b"x" * 100] * 29, None), lambda batch, count: None))

    pages = [batch.encode() for batch in buffer.unfinished.values()]
    assert sum(page.record_count for page in pages) == 50
    assert max(len(page.body) for page in pages) <= 3_000


def test_records_with_and_without_a_key_share_a_page() -> None:
    buffer = buffer_of(partitions=1, page_bytes=4_000)
    for number in range(100):
        if number % 3:
            buffer.put(0, b"x" * 20, 20)
        else:
            buffer.put_rich(0, b"x" * 20, b"key", None, b"", 23, 23 + 2 * HELD_BYTES)

    assert buffer.taken_bytes == 66 * (20 + HELD_BYTES) + 34 * (23 + 2 * HELD_BYTES)
    pages = [batch.encode() for batch in buffer.unfinished.values()]
    assert sum(page.record_count for page in pages) == 100
    assert max(len(page.body) for page in pages) <= 4_000
    assert len(pages) == 2


@pytest.mark.parametrize("is_rich", [False, True])
def test_a_page_with_room_takes_no_record_after_the_end_of_its_publisher(is_rich: bool) -> None:
    def put(buffer: SendBuffer) -> None:
        if is_rich:
            buffer.put_rich(0, b"x", b"k", None, b"", 2, 2 + 2 * HELD_BYTES)
        else:
            buffer.put(0, b"x", 1)

    def fail(buffer: SendBuffer) -> None:
        with buffer.lock:
            buffer.end(Closed("it ended", reason=Reason.PUBLISHER_CLOSED))

    for end in (SendBuffer.close, fail):
        buffer = buffer_of()
        put(buffer)
        end(buffer)
        with pytest.raises(Closed):
            put(buffer)
        assert buffer.taken_bytes == buffer.reserved_bytes


@pytest.mark.parametrize("is_rich", [False, True])
def test_an_open_page_keeps_the_bound_of_a_broker_that_takes_smaller_ones(is_rich: bool) -> None:
    buffer = buffer_of(partitions=1)
    sender = Sender(buffer)

    def put() -> None:
        if is_rich:
            buffer.put_rich(0, b"x" * 90, b"k" * 10, None, b"", 100, 100 + 2 * HELD_BYTES)
        else:
            buffer.put(0, b"x" * 100, 100)

    put()
    opened = pb.PublishOpened(partitions=1, page_bytes_max=2_000, record_bytes_max=1 << 20)
    sender.opened(PublishStreamState(), opened, "s", resumed=False)
    for _ in range(200):
        put()

    pages = [batch.encode() for batch in buffer.unfinished.values()]
    assert sum(page.record_count for page in pages) == 201
    assert max(len(page.body) for page in pages) <= 2_000


@pytest.mark.parametrize("records", [1, 2, 3, 100])
def test_a_page_is_sealed_by_the_record_that_fills_it(records: int) -> None:
    buffer = buffer_of(partitions=1, page_records=records)
    for _ in range(records):
        buffer.put(0, b"", 0)

    assert not buffer.batches.by_partition
    assert [batch.count for batch in buffer.unfinished.values()] == [records]
