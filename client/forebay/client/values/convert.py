"""Conversion between protobuf messages and the client's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from forebay.client.errors import InvalidPage
from forebay.client.values.records import (
    BrokerInfo,
    DeliveredRecord,
    DropReason,
    Durability,
    Encoding,
    Gap,
    HeadersLike,
    PagePart,
    PeekedRecord,
    Receipt,
    Record,
    SettleOutcome,
    SettleResult,
    StoredPage,
)
from forebay.client.values.schemas import Schema
from forebay.page.columns import Headers
from forebay.page.format import HEADERS_MAX
from forebay.v1 import admin_service_pb2, buffer_service_pb2, record_pb2

E = TypeVar("E", bound=StrEnum)
HEADER_NAME_BYTES_MAX: Final = 256
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
YEAR_1_US: Final = -62_135_596_800_000_000
YEAR_10000_US: Final = 253_402_300_800_000_000


class EnumType(Protocol):
    """Part of the interface of a generated enum that is used here."""

    def Name(self, number: int) -> str:
        """Return the name of a number; raises ``ValueError`` for an unknown number."""


UNREADABLE_HEADER: Final = "forebay.unreadable"
"""Header of a pulled row that cannot be decoded; its value is the reason."""


def enum(kind: type[E], wire: EnumType, number: int, prefix: str) -> E:
    """Return the member of ``kind`` for a wire number; ``UNSPECIFIED`` for a number of a newer broker."""
    try:
        return kind(wire.Name(number).removeprefix(prefix))
    except ValueError:
        return kind("UNSPECIFIED")


def moment(stamp: Timestamp) -> datetime:
    """Return the aware UTC ``datetime`` of a timestamp, to the microsecond."""
    return EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)


def from_us(microseconds: int) -> datetime:
    """Return the aware UTC ``datetime`` of microseconds since 1970."""
    return EPOCH + timedelta(microseconds=microseconds)


def to_us(event_time: datetime | int) -> int:
    """Return microseconds since 1970 UTC.

    Raises ``InvalidPage`` for a ``datetime`` without a zone, and for a number that no ``datetime`` could hold.
    """
    if isinstance(event_time, int):
        if not YEAR_1_US <= event_time < YEAR_10000_US:
            raise InvalidPage(
                f"event_time = {event_time}: must be microseconds since 1970 UTC, within the years 1 to 9999"
            )
        return event_time
    if event_time.tzinfo is None:
        raise InvalidPage("event_time has no time zone; use datetime(..., tzinfo=UTC)")
    return (event_time - EPOCH) // MICROSECOND


def stamp(when: datetime | int) -> Timestamp:
    """Return the wire form of a time."""
    seconds, microseconds = divmod(to_us(when), 1_000_000)
    return Timestamp(seconds=seconds, nanos=microseconds * 1000)


def seconds(duration: Duration) -> float:
    """Return a duration in seconds."""
    return duration.seconds + duration.nanos / 1e9


def duration(seconds_: float) -> Duration:
    """Return the wire form of seconds, to the microsecond."""
    whole, microseconds = divmod(round(seconds_ * 1e6), 1_000_000)
    return Duration(seconds=whole, nanos=microseconds * 1000)


def headers(given: HeadersLike | None) -> Headers:
    """Return headers in their stored form."""
    if not given:
        return ()
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if len(pairs) > HEADERS_MAX:
        raise InvalidPage(f"{len(pairs)} headers: must be at most {HEADERS_MAX}")
    return tuple([_header(name, value) for name, value in pairs])


def _header(name: str, value: bytes | str) -> tuple[str, bytes]:
    try:
        encoded = value.encode() if isinstance(value, str) else value
        size = len(name.encode())
    except (AttributeError, UnicodeEncodeError) as failure:
        raise InvalidPage(
            "the name of a header must be text that can be encoded as UTF-8, its value bytes or text"
        ) from failure
    if type(encoded) is not bytes or not 1 <= size <= HEADER_NAME_BYTES_MAX:
        raise InvalidPage(
            f"the name of a header must have 1 to {HEADER_NAME_BYTES_MAX} bytes, its value must be bytes or text"
        )
    return name, encoded


def record_message(record: Record) -> record_pb2.Record:
    """Return the wire form of a record."""
    return record_pb2.Record(
        value=record.value,
        key=record.key,
        headers=[record_pb2.Header(key=name, value=value) for name, value in headers(record.headers)],
        event_time=None if record.event_time is None else stamp(record.event_time),
    )


def receipt(message: record_pb2.Receipt) -> Receipt:
    """Return the receipt of a message."""
    known = message.HasField("first_offset")
    return Receipt(
        sink=message.sink,
        partition=message.partition,
        first_offset=message.first_offset if known else None,
        last_offset=message.last_offset if known else None,
        durability=enum(Durability, record_pb2.Durability, message.durability, "DURABILITY_"),
        duplicate=message.duplicate,
        staged=message.staged,
    )


def gap(message: record_pb2.Gap) -> Gap:
    """Return the gap of a message."""
    return Gap(
        partition=message.partition,
        first_offset=message.first_offset,
        last_offset=message.last_offset,
        reason=enum(DropReason, record_pb2.DropReason, message.reason, "DROP_REASON_"),
        at=moment(message.at),
        first_at=moment(message.first_at) if message.HasField("first_at") else None,
        counts={
            enum(DropReason, record_pb2.DropReason, count.reason, "DROP_REASON_"): count.records
            for count in message.counts
        },
        subscription=message.subscription,
        detail=message.detail,
        at_most=message.at_most,
    )


def settle_result(message: buffer_service_pb2.SettleResult) -> SettleResult:
    """Return the settle result of a message."""
    outcome = enum(SettleOutcome, buffer_service_pb2.SettleOutcome, message.outcome, "SETTLE_OUTCOME_")
    return SettleResult(message.partition, message.range.first_offset, message.range.last_offset, outcome)


def stored_page(
    message: record_pb2.StoredPage,
    body: bytes,
    partition: int,
    first: int,
    last: int,
    schema_of: Callable[[int], Schema] | None = None,
) -> StoredPage:
    """Return a stored page with its verified ``body`` and the requested range ``first`` to ``last``."""
    return StoredPage(
        partition=partition,
        base_offset=message.base_offset,
        record_count=message.record_count,
        encoding=enum(Encoding, record_pb2.Encoding, message.encoding, "ENCODING_"),
        body=body,
        parts=tuple(PagePart(part.first_offset, moment(part.accepted_at), part.traceparent) for part in message.parts),
        first_offset=first,
        last_offset=last,
        schema_of=schema_of,
    )


def delivered_record(message: buffer_service_pb2.DeliveredRecord, incarnation: str) -> DeliveredRecord:
    """Return a pulled record.

    The broker marks a row that cannot be decoded with a header whose value is the reason.
    """
    record = message.record
    why = next((header.value for header in record.headers if header.key == UNREADABLE_HEADER), b"")
    return DeliveredRecord(
        partition=message.partition,
        offset=message.offset,
        key=record.key if record.HasField("key") else None,
        value=record.value,
        headers=tuple((header.key, header.value) for header in record.headers),
        event_time=moment(record.event_time) if record.HasField("event_time") else None,
        accepted_at=moment(message.accepted_at),
        attempt=message.attempt,
        resend=message.resend,
        owner_epoch=message.owner_epoch,
        revision=message.revision,
        incarnation=incarnation,
        unreadable="" if record.value else why.decode(errors="replace"),
    )


def peeked_record(message: buffer_service_pb2.PeekedRecord) -> PeekedRecord:
    """Return a peeked record."""
    return PeekedRecord(
        offset=message.offset,
        accepted_at=moment(message.accepted_at),
        key=message.key,
        value=message.value,
        format=message.format,
        value_bytes=message.value_bytes,
        headers=dict(message.headers),
        event_time=moment(message.event_time) if message.HasField("event_time") else None,
        truncated=message.truncated,
        headers_omitted=message.headers_omitted,
    )


def broker_info(message: admin_service_pb2.GetBrokerInfoResponse) -> BrokerInfo:
    """Return the description of a broker."""
    return BrokerInfo(
        version=message.version,
        store_id=message.store_id,
        format=message.format,
        start_count=message.start_count,
        started_at=moment(message.started_at),
        state=admin_service_pb2.BrokerState.Name(message.state).removeprefix("BROKER_STATE_"),
        state_reason=message.state_reason,
        sinks=message.sinks,
        sinks_max=message.sinks_max,
        record_bytes_max=message.record_bytes_max,
        page_bytes_max=message.page_bytes_max,
        tail_bytes=message.tail_bytes,
        tail_bytes_max=message.tail_bytes_max,
        waiting_bytes=message.waiting_bytes,
        data_dir=message.data_dir,
        groups=message.groups,
        quarantined_pages=message.quarantined_pages,
        quarantined_bytes=message.quarantined_bytes,
        mended=tuple(message.mended),
        unreadable=tuple(message.unreadable),
        read_failures=message.read_failures,
        background_failures=tuple(message.background_failures),
        quarantine_evicted_pages=message.quarantine_evicted_pages,
        warnings=tuple(message.warnings),
    )


def narrowed(page: StoredPage, first: int, last: int) -> StoredPage:
    """Return the same page with another requested range."""
    return replace(page, first_offset=first, last_offset=last)
