"""Records of one call become pages of their partitions, or none of them does."""

from __future__ import annotations

import zlib

import pytest

from forebay.broker.core.errors import InvalidPage, InvalidPartition, RecordTooLarge
from forebay.broker.core.partition.pages import Incoming
from forebay.broker.rpc.buffer.batches import pages_of
from forebay.v1 import buffer_service_pb2 as pb


def made(request: pb.PublishBatchRequest, turn: int = 1) -> dict[int, list[Incoming]]:
    """The pages of a request to a sink of four partitions that takes records of up to 1,000 bytes."""
    return pages_of(request, 4, turn, record_bytes_max=1_000, traceparent="trace")


def test_records_go_to_the_partition_of_their_key_or_to_the_one_whose_turn_it_is() -> None:
    found = made(pb.PublishBatchRequest(records=[{"key": b"k"}, {"value": b"x"}, {"value": b"y"}]), turn=6)

    keyed = zlib.crc32(b"k") % 4
    counts = {partition: sum(page.record_count for page in pages) for partition, pages in found.items()}
    assert counts == ({keyed: 3} if keyed == 2 else {keyed: 1, 2: 2})
    assert all(page.traceparent == "trace" for pages in found.values() for page in pages)


def test_a_partition_that_is_named_takes_all() -> None:
    assert set(made(pb.PublishBatchRequest(records=[{"key": b"k"}, {}], partition=3))) == {3}


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (pb.PublishBatchRequest(records=[{}], partition=4), InvalidPartition),
        (pb.PublishBatchRequest(records=[{}, {"value": b"x" * 1_001}]), RecordTooLarge),
        (pb.PublishBatchRequest(records=[{}, {"headers": [{"key": ""}] * 65}]), InvalidPage),
        (pb.PublishBatchRequest(records=[{}, {"event_time": {"seconds": 1 << 60}}]), InvalidPage),
        (pb.PublishBatchRequest(records=[{}, {"value": b"x", "text": "x"}]), InvalidPage),
        (pb.PublishBatchRequest(records=[{}, {"key": b"", "key_text": ""}]), InvalidPage),
        (pb.PublishBatchRequest(records=[{}, {"headers": [{"key": "h", "value": b"x", "text": "x"}]}]), InvalidPage),
    ],
)
def test_one_wrong_record_refuses_all(request_: pb.PublishBatchRequest, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        made(request_)


def test_a_record_that_is_written_as_text_is_stored_as_bytes() -> None:
    typed = {"text": "12 °C", "key_text": "Köln", "headers": [{"key": "unit", "text": "°C"}]}
    plain = {
        "value": "12 °C".encode(),
        "key": "Köln".encode(),
        "headers": [{"key": "unit", "value": "°C".encode()}],
    }

    assert made(pb.PublishBatchRequest(records=[typed, {"key_text": ""}])) == made(
        pb.PublishBatchRequest(records=[plain, {"key": b""}])
    )
