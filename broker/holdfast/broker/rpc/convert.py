"""Records, pages, ranges and times between the wire and the core."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from holdfast.broker.core.errors import InvalidRange
from holdfast.broker.core.lane import Outcome
from holdfast.broker.core.pages import Body, Durability, Entry, Gap, Incoming
from holdfast.broker.core.ranges import Range
from holdfast.broker.runtime.publishing import Stored
from holdfast.v1 import buffer_service_pb2 as pb
from holdfast.v1 import record_pb2

NO_KEY: Final = 0xFFFF_FFFF
RANGES_MAX: Final = 10_000


def timestamp(microseconds: int) -> Timestamp:
    """A wall time for the wire."""
    return Timestamp(seconds=microseconds // 1_000_000, nanos=microseconds % 1_000_000 * 1_000)


def timestamp_us(value: Timestamp) -> int:
    """Microseconds of a wall time from the wire."""
    return int(value.seconds) * 1_000_000 + int(value.nanos) // 1_000


def duration(microseconds: int) -> Duration:
    """A duration for the wire."""
    value = Duration()
    value.FromMicroseconds(microseconds)
    return value


def duration_us(value: Duration) -> int:
    """Microseconds of a duration from the wire."""
    return int(value.seconds) * 1_000_000 + int(value.nanos) // 1_000


def count_records(body: bytes) -> int:
    """Records in the body of a page; raises ValueError when its columns contradict each other."""
    try:
        page = record_pb2.RecordPage.FromString(body)
    except DecodeError as error:
        raise ValueError("it cannot be parsed") from error
    total = 0
    for run in page.runs:
        count = len(run.value_lengths)
        if sum(run.value_lengths) != len(run.values):
            raise ValueError("the lengths of the values do not add up")
        if run.key_lengths:
            if len(run.key_lengths) != count:
                raise ValueError("there are not as many keys as values")
            if sum(length for length in run.key_lengths if length != NO_KEY) != len(run.keys):
                raise ValueError("the lengths of the keys do not add up")
        if len(run.event_times_us) not in (0, count) or len(run.headers) not in (0, count):
            raise ValueError("there are not as many event times or headers as values")
        total += count
    return total


def incoming(page: pb.PublishPage) -> Incoming:
    """A page from a publish stream."""
    return Incoming(page.partition, page.encoding, page.record_count, page.crc32, page.body, page.traceparent)


def receipt(sink: str, partition: int, stored: Stored) -> record_pb2.Receipt:
    """The receipt for a page."""
    message = record_pb2.Receipt(
        sink=sink, partition=partition, durability=durability(stored.durability), duplicate=stored.duplicate
    )
    if stored.first is not None:
        message.first_offset = stored.first
        message.last_offset = stored.first + stored.count - 1
    return message


def durability(level: Durability) -> record_pb2.Durability:
    """A level of durability; the numbers are the same."""
    return cast("record_pb2.Durability", int(level))


def stored_page(entry: Entry, body: Body) -> record_pb2.StoredPage:
    """A stored page with its place."""
    return record_pb2.StoredPage(
        base_offset=entry.base,
        record_count=entry.count,
        encoding=cast("record_pb2.Encoding", entry.encoding),
        crc32=body.crc32,
        body=body.data,
        parts=[
            record_pb2.PagePart(
                first_offset=part.first, accepted_at=timestamp(part.accepted_at_us), traceparent=part.traceparent
            )
            for part in entry.parts
        ],
    )


def gap(partition: int, found: Gap) -> record_pb2.Gap:
    """A gap, as a reader meets it."""
    return record_pb2.Gap(
        partition=partition,
        first_offset=found.first,
        last_offset=found.end - 1,
        reason=cast("record_pb2.DropReason", int(found.reason)),
        at=timestamp(found.at_us),
    )


def ranges(wanted: Sequence[record_pb2.OffsetRange]) -> list[Range]:
    """Ranges from the wire, checked."""
    if not 1 <= len(wanted) <= RANGES_MAX:
        raise InvalidRange(f"1 to {RANGES_MAX} ranges are allowed, not {len(wanted)}", field="ranges")
    for item in wanted:
        if item.last_offset < item.first_offset:
            raise InvalidRange(
                f"the range {item.first_offset} to {item.last_offset} is upside down", field="ranges.last_offset"
            )
    return [Range(item.first_offset, item.last_offset + 1) for item in wanted]


def results(found: Iterable[tuple[int, Range, Outcome]]) -> list[pb.SettleResult]:
    """Results for the wire."""
    return [
        pb.SettleResult(
            partition=partition,
            range=record_pb2.OffsetRange(first_offset=part.first, last_offset=part.end - 1),
            outcome=cast("pb.SettleOutcome", int(outcome)),
        )
        for partition, part, outcome in found
    ]
