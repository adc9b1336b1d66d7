"""Records, pages, ranges and times between the wire and the core."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.errors import BrokerError, InvalidValue
from forebay.broker.core.partition.pages import TRACEPARENT_MAX, Body, Durability, Entry, Gap, Incoming
from forebay.broker.core.partition.ranges import Range
from forebay.broker.rpc.requests.numbers import NUMBER_MAX, TIME_S, check_number
from forebay.broker.runtime.publish.result import PublishResult
from forebay.errors.reasons import Reason
from forebay.page.format import Bytes
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2, sink_pb2

RANGES_MAX: Final = 10_000
_TRACE_ID: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-.+")


def timestamp(microseconds: int) -> Timestamp:
    """Return a wall clock time for the wire, clamped to the years 1 to 9999.

    A clock or a damaged value may be outside of them.
    """
    first, last = TIME_S
    microseconds = min(max(microseconds, first * 1_000_000), last * 1_000_000 + 999_999)
    return Timestamp(seconds=microseconds // 1_000_000, nanos=microseconds % 1_000_000 * 1_000)


def timestamp_us(value: Timestamp) -> int:
    """Return the microseconds of a wall clock time from the wire."""
    return int(value.seconds) * 1_000_000 + int(value.nanos) // 1_000


def duration(microseconds: int) -> Duration:
    """Return a duration for the wire."""
    value = Duration()
    value.FromMicroseconds(microseconds)
    return value


def duration_us(value: Duration) -> int:
    """Return the microseconds of a duration from the wire."""
    return int(value.seconds) * 1_000_000 + int(value.nanos) // 1_000


def incoming(page: pb.PublishPage, body: Bytes) -> Incoming:
    """Return a page from a publish stream."""
    return Incoming(page.partition, page.encoding, page.record_count, page.crc32, body, page.traceparent)


def trace_id(traceparent: str) -> str:
    """Return the trace id of a W3C trace context, 32 hexadecimal digits; empty if there is none."""
    found = _TRACE_ID.fullmatch(traceparent)
    return found[1] if found is not None and found[1].strip("0") else ""


def traceparent(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """Return the W3C trace context of a call's metadata; empty if it is missing or too long."""
    for name, value in metadata or ():
        if name == "traceparent" and isinstance(value, str) and len(value) <= TRACEPARENT_MAX:
            return value
    return ""


def receipt(sink: str, partition: int, stored: PublishResult) -> record_pb2.Receipt:
    """Return the receipt for a page."""
    message = record_pb2.Receipt(
        sink=sink, partition=partition, durability=durability(stored.durability), duplicate=stored.duplicate
    )
    message.staged = stored.staged
    if stored.first is not None:
        message.first_offset = stored.first
        message.last_offset = stored.first + stored.count - 1
    return message


def durability(level: Durability) -> record_pb2.Durability:
    """Return a durability level for the wire; the numbers are the same."""
    return cast("record_pb2.Durability", int(level))


def page_head(entry: Entry, body: Body) -> record_pb2.StoredPage:
    """Return a stored page with its place, but without its body."""
    return record_pb2.StoredPage(
        base_offset=entry.base,
        record_count=entry.count,
        encoding=cast("record_pb2.Encoding", entry.encoding),
        crc32=body.crc32,
        parts=[
            record_pb2.PagePart(
                first_offset=part.first, accepted_at=timestamp(part.accepted_at_us), traceparent=part.traceparent
            )
            for part in entry.parts
        ],
    )


def gap(partition: int, found: Gap) -> record_pb2.Gap:
    """Return a gap, as a reader gets it, for the wire."""
    return record_pb2.Gap(
        partition=partition,
        first_offset=found.first,
        last_offset=found.end - 1,
        reason=cast("record_pb2.DropReason", int(found.reason)),
        at=timestamp(found.at_us),
        first_at=timestamp(found.first_at_us),
        counts=[
            record_pb2.GapCount(reason=cast("record_pb2.DropReason", reason), records=records)
            for reason, records in found.counts
        ],
        subscription=found.subscription,
        detail=found.detail,
        at_most=found.at_most,
    )


def ordering(*, relaxed: bool) -> sink_pb2.Ordering:
    """Return the order under which a delivery is sent."""
    return sink_pb2.ORDERING_RELAXED if relaxed else sink_pb2.ORDERING_STRICT


def ranges(wanted: Sequence[record_pb2.OffsetRange]) -> list[Range]:
    """Return ranges from the wire, checked."""
    check_count(len(wanted))
    for item in wanted:
        if item.last_offset < item.first_offset:
            raise BrokerError(
                Reason.INVALID_RANGE,
                f"the range {item.first_offset} to {item.last_offset} has its end before its start",
                field="ranges.last_offset",
            )
        if item.last_offset > NUMBER_MAX:
            check_number(item.last_offset, "ranges.last_offset")
    return [Range(item.first_offset, item.last_offset + 1) for item in wanted]


def check_count(ranges: int) -> None:
    """Raise ``INVALID_RANGE`` if an answer names no range, or too many."""
    if not 1 <= ranges <= RANGES_MAX:
        raise InvalidValue(Reason.INVALID_RANGE, "ranges", f"{ranges} ranges", f"1 to {RANGES_MAX}")


def results(found: Iterable[tuple[int, Range, SettleOutcome]]) -> list[pb.SettleResult]:
    """Return results for the wire."""
    return [
        pb.SettleResult(
            partition=partition,
            range=record_pb2.OffsetRange(first_offset=part.first, last_offset=part.end - 1),
            outcome=cast("pb.SettleOutcome", int(outcome)),
        )
        for partition, part, outcome in found
    ]
