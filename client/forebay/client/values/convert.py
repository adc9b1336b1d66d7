"""Conversion between protobuf messages and the client's values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache, lru_cache, partial
from itertools import repeat
from operator import attrgetter
from types import NoneType
from typing import Any, Final, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from forebay.client.errors import InvalidPage
from forebay.client.values.records import (
    DeliveredRecord,
    Durability,
    Encoding,
    HeadersLike,
    PagePart,
    Receipt,
    Record,
    SettleOutcome,
    SettleResult,
    StoredPage,
)
from forebay.client.values.schemas import Schema
from forebay.page.encoding import header_head
from forebay.page.format import HEADERS_MAX
from forebay.page.header_pairs import Headers
from forebay.v1 import buffer_service_pb2, record_pb2

E = TypeVar("E", bound=StrEnum)
V = TypeVar("V")
HEADER_NAME_BYTES_MAX: Final = 256
_NO_HEADER: Final = (AttributeError, TypeError, ValueError)
"""Failures of what is no pair of a name and a value, and of text that cannot be encoded."""
_NONE_YET: Final = object()
_NO_FIELD: Final[tuple[object, bytes]] = (_NONE_YET, b"")
LAST_FIELDS_MAX: Final = 1_024
LAST_BYTES_MAX: Final = 64
LAST_FIELDS: Final[dict[str, tuple[object, bytes]]] = {}
"""Last short value of a header by name, and its field in a page.

Many programs pass one object with every record. Only the same object counts as the same value, and only an
immutable one is kept.
"""
_HEADER_TYPES: Final = "the name of a header must be text that can be encoded as UTF-8, its value bytes or text"
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


def value(kind: type[V], message: Message, **given: object) -> V:
    """Return a message as a value of the dataclass ``kind``; ``given`` are attributes without a field.

    A duration becomes seconds, in the attribute ``NAME_s``. An attribute that may be ``None`` is so for an unset field.
    """
    types: tuple[Any, Any] = (kind, type(message))
    readers = _readers(*types, frozenset(given))
    return kind(**given, **{name: read(message) for name, read in readers})


@cache
def _readers(kind: type, message: Any, given: frozenset[str]) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return the function that reads each attribute from a message of this type."""
    fields, hints = message.DESCRIPTOR.fields_by_name, get_type_hints(kind)
    names = {name: name if name in fields else name.removesuffix("_s") for name in hints if name not in given}
    return [(name, _reader(hints[name], fields[field])) for name, field in names.items()]


def _reader(hint: Any, field: Any) -> Callable[[Any], Any]:
    get = attrgetter(field.name)
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    if NoneType in get_args(hint):
        convert = _conversion(kinds[0], field)
        return lambda message: convert(get(message)) if message.HasField(field.name) else None
    convert = _conversion(hint, field)
    return get if convert is _same else lambda message: convert(get(message))


def _same(found: Any) -> Any:
    return found


def _conversion(hint: Any, field: Any) -> Callable[[Any], Any]:
    """Return the conversion of a field to the type ``hint``."""
    if get_origin(hint) is tuple:
        each = _conversion(get_args(hint)[0], field)
        return lambda found: tuple(map(each, found))
    if get_origin(hint) is Mapping and field.message_type.GetOptions().map_entry:
        return dict
    if get_origin(hint) is Mapping:  # counts by reason
        reason = _conversion(get_args(hint)[0], field.message_type.fields_by_name["reason"])
        return lambda found: {reason(count.reason): count.records for count in found}
    if field.enum_type is not None:
        members = {number: hint(name) for number, name in names(field.enum_type).items()}
        return lambda number: members.get(number, members[0])
    if field.message_type is None:
        return _same
    return moment if hint is datetime else seconds if hint is float else partial(value, hint)


def names(enum: Any) -> dict[int, str]:
    """Return the names of an enumeration of the wire without their prefix; that of 0 is ``UNSPECIFIED``."""
    prefix = enum.values[0].name.removesuffix("UNSPECIFIED")
    return {value.number: value.name.removeprefix(prefix) for value in enum.values}


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


def from_us_each(times: Sequence[int | None]) -> Iterator[datetime | None]:
    """Iterate over the ``datetime`` of each time, None for a record without one."""
    if None in times:
        return (None if time is None else EPOCH + timedelta(0, 0, time) for time in times)
    return map(EPOCH.__add__, map(timedelta, repeat(0), repeat(0), cast("Sequence[int]", times)))


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
    since = event_time - EPOCH
    if type(since) is timedelta:  # a division would take twice as long
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return since // MICROSECOND


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
    pairs = _checked_pairs(given)
    return tuple([(name, value.encode() if isinstance(value, str) else value) for name, value in pairs])


def headers_message(given: HeadersLike) -> bytes:
    """Return the headers of a record as they are in a page. Raises ``InvalidPage`` as ``headers``."""
    pairs = given.items() if type(given) is dict and len(given) <= HEADERS_MAX else _pairs(given)
    message = b""
    try:
        for name, value in pairs:
            known, field = LAST_FIELDS.get(name, _NO_FIELD)
            if known is not value:
                stored = value if type(value) is bytes else _text(value)
                field = _header_head(name, len(stored)) + stored
                if len(stored) <= LAST_BYTES_MAX and (type(value) is bytes or type(value) is str):
                    if known is _NONE_YET and len(LAST_FIELDS) >= LAST_FIELDS_MAX:
                        LAST_FIELDS.clear()
                    LAST_FIELDS[name] = value, field
            message += field
    except _NO_HEADER as failure:
        raise InvalidPage(_HEADER_TYPES) from failure
    return message


@lru_cache(maxsize=4096)
def _header_head(name: str, value_bytes: int) -> bytes:
    """Return what precedes the value of a header, whose name was checked. Names and sizes recur."""
    _check_name(name)
    return header_head(name, value_bytes)


def _text(value: object) -> bytes:
    if type(value) is str:
        return value.encode()
    if not isinstance(value, str):
        raise TypeError(type(value).__name__)
    return value.encode()


def _pairs(given: HeadersLike) -> Collection[tuple[str, bytes | str]]:
    """Return headers as pairs. Raises ``InvalidPage`` for too many."""
    if type(given) is dict:  # without the cost of a check for an abstract class
        pairs: Collection[tuple[str, bytes | str]] = given.items()
    elif type(given) is list:
        pairs = given
    else:
        pairs = given.items() if isinstance(given, Mapping) else tuple(given)
    if len(pairs) > HEADERS_MAX:
        raise InvalidPage(f"{len(pairs)} headers: must be at most {HEADERS_MAX}")
    return pairs


def _checked_pairs(given: HeadersLike) -> Collection[tuple[str, bytes | str]]:
    """Return headers as pairs. Raises ``InvalidPage`` for too many, and for one that cannot be stored."""
    pairs = _pairs(given)
    try:
        for name, value in pairs:
            _check_name(name)
            if type(value) is not bytes:
                _text(value)
    except _NO_HEADER as failure:
        raise InvalidPage(_HEADER_TYPES) from failure
    return pairs


@lru_cache(maxsize=1024)
def _check_name(name: str) -> None:
    """Raise ``InvalidPage`` for the name of a header that is too long. Names recur from record to record."""
    if not 1 <= len(name.encode()) <= HEADER_NAME_BYTES_MAX:
        raise InvalidPage(
            f"the name of a header must have 1 to {HEADER_NAME_BYTES_MAX} bytes, its value must be bytes or text"
        )


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


def narrowed(page: StoredPage, first: int, last: int) -> StoredPage:
    """Return the same page with another requested range."""
    return replace(page, first_offset=first, last_offset=last)
