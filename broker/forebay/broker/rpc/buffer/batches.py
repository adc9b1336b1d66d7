"""Records of one call as pages of their partitions, all checked before any is appended."""

from __future__ import annotations

import zlib

from forebay.broker.core.errors import InvalidPage, InvalidPartition, RecordTooLarge
from forebay.broker.core.partition.pages import Incoming
from forebay.broker.rpc.pages import records
from forebay.broker.rpc.pages.bounds import count_records
from forebay.page.format import HEADERS_MAX
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2


def pages_of(
    request: pb.PublishBatchRequest, partitions: int, turn: int, *, record_bytes_max: int, traceparent: str
) -> dict[int, list[Incoming]]:
    """Return the pages of each partition. Records without a key go to ``turn`` modulo the partitions.

    Raises ``InvalidPartition``, ``RecordTooLarge`` and ``InvalidPage``. Takes time for many records: then it is called
    in a thread.
    """
    return {
        partition: [
            page.checked(record_bytes_max=record_bytes_max, count_records=count_records)
            for page in records.pages_of(chosen, partition, traceparent)
        ]
        for partition, chosen in _routed(request, partitions, turn, record_bytes_max).items()
    }


def _routed(
    request: pb.PublishBatchRequest, partitions: int, turn: int, record_bytes_max: int
) -> dict[int, list[record_pb2.Record]]:
    if request.HasField("partition") and request.partition >= partitions:
        raise InvalidPartition(request.partition, partitions)
    routed: dict[int, list[record_pb2.Record]] = {}
    for record in request.records:
        _encode_text(record)
        if record.ByteSize() > record_bytes_max:
            raise RecordTooLarge(record.ByteSize(), record_bytes_max, "a record")
        if len(record.headers) > HEADERS_MAX:
            raise InvalidPage(
                f"a record has {len(record.headers)} headers: at most {HEADERS_MAX} are allowed",
                field="records.headers",
            )
        if request.HasField("partition"):
            partition = request.partition
        elif record.HasField("key"):
            partition = zlib.crc32(record.key) % partitions
        else:
            partition = turn % partitions
        routed.setdefault(partition, []).append(record)
    return routed


def _encode_text(record: record_pb2.Record) -> None:
    """Put what was written as text into the fields of bytes. Raises ``InvalidPage`` if both are set."""
    if record.text:
        if record.value:
            raise _both("records.value", "records.text")
        record.value = record.text.encode()
        record.ClearField("text")
    if record.HasField("key_text"):
        if record.HasField("key"):
            raise _both("records.key", "records.key_text")
        record.key = record.key_text.encode()
        record.ClearField("key_text")
    for header in record.headers:
        if header.text:
            if header.value:
                raise _both("records.headers.value", "records.headers.text")
            header.value = header.text.encode()
            header.ClearField("text")


def _both(field: str, text: str) -> InvalidPage:
    return InvalidPage(f"{field} and {text} are set: set only one of them", field=text)
