"""Dead letter: the original record with ten headers appended that describe its rejection.

The ten headers are always the last ones and in this order, so that removing them restores the record exactly, whatever
headers it had. Values are UTF-8, readable with `forebay peek`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Final, Protocol

from forebay.broker.core.names import RESERVED_SUFFIX
from forebay.broker.core.partition.pages import Body, Entry, Incoming
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import DEFAULTS, Overflow, SinkSettings
from forebay.broker.core.writes import SchemaRecord
from forebay.page.format import PAGE_BYTES_MAX, PAGE_RECORDS_MAX

PREFIX: Final = "forebay.dead."
NAMES: Final = tuple(
    PREFIX + name
    for name in (
        "reason",
        "error",
        "attempts",
        "subscription",
        "sink",
        "incarnation",
        "partition",
        "offset",
        "time",
        "traceparent",
    )
)
UNCUT: Final = PREFIX + "uncut"
"""Header after the ten, for a record that could not be cut out of its page: the cause."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RejectionReason(IntEnum):
    """Reason why a record became a dead letter; the numbers are those of the wire."""

    REJECTED = 1
    """The consumer reported that the target will never accept it."""

    MAX_ATTEMPTS = 2
    """The record failed `max_attempts` times."""


@dataclass(frozen=True, slots=True)
class PlainRecord:
    """Record cut out of its page."""

    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    event_time_us: int | None = None

    @property
    def size(self) -> int:
        """Lower bound of its bytes in a body: its content, its column entries and the frames of its headers."""
        headers = sum(len(name.encode()) + len(value) + 12 for name, value in self.headers)
        return len(self.value) + len(self.key or b"") + headers + 24


@dataclass(frozen=True, slots=True)
class Cut:
    """Record with the offset at which it was cut out."""

    offset: int
    accepted_at_us: int
    traceparent: str
    record: PlainRecord
    uncut: str = ""
    """Reason why the record cannot be read alone.

    Its value is then the body of a page with this row only, as it was published.
    """


class RecordCodec(Protocol):
    """Codec of the records within pages; no other part decodes them.

    Blocking; runs in a read thread.
    """

    def cut(
        self, entry: Entry, body: Body, wanted: Sequence[Range], schema_of: Callable[[int], SchemaRecord]
    ) -> list[Cut]:
        """Return the records of a page whose offsets are in ``wanted`` (sorted, disjoint), by offset.

        ``schema_of`` returns a version of the schema of the page's sink, or raises ``SchemaNotFound``. Raises
        ``InvalidPage`` if no row can be cut out because the rows are not what the publisher stated, and
        ``RowsNotDecodable`` if another installation could.
        """

    def page(self, records: Sequence[PlainRecord], partition: int, traceparent: str) -> Incoming:
        """Return a page of records for a partition."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a dead letter: the place and the reason of the rejection."""

    reason: RejectionReason
    error: str
    """Error text of the target, or the last failure."""

    attempts: int
    """Number of failed attempts."""

    subscription: str
    sink: str
    incarnation: str
    partition: int
    offset: int
    at_us: int
    """Wall clock time at which it became a dead letter."""

    traceparent: str = ""
    """W3C trace context of its publisher, or empty."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Decoded record of a dead-letter sink."""

    offset: int
    """Offset in the dead-letter sink."""

    accepted_at_us: int
    """Time at which the dead-letter sink accepted it."""

    origin: Origin | None
    """None for a record without the headers of a dead letter."""

    record: PlainRecord
    """Record as it was published."""

    uncut: str = ""
    """Reason why it could not be cut out of its page, or read.

    Its value is then the body of that page, the body of a page with this row only, or empty; see ``whole_page``.
    """

    @property
    def redrivable(self) -> bool:
        """True if it has an origin and holds the original record."""
        return self.origin is not None and not self.uncut


@dataclass(frozen=True, slots=True)
class Filter:
    """Selection of dead letters; a field that is None or empty selects all."""

    reason: RejectionReason | None = None
    error_contains: str = ""
    error: str | None = None
    """Exact error text."""

    subscription: str = ""
    partition: int | None = None
    """Partition of the origin."""

    offsets: Range | None = None
    """Offsets in the origin."""

    from_us: int | None = None
    """Start of the time range, inclusive, of becoming a dead letter."""

    until_us: int | None = None
    """End of that time range, exclusive."""

    def matches(self, letter: DeadLetter) -> bool:
        """Return whether a dead letter is selected."""
        origin = letter.origin
        if origin is None:
            return self == Filter()
        return (
            (self.reason is None or origin.reason is self.reason)
            and self.error_contains in origin.error
            and self.error in (None, origin.error)
            and self.subscription in ("", origin.subscription)
            and (self.partition is None or origin.partition == self.partition)
            and (self.offsets is None or self.offsets.first <= origin.offset < self.offsets.end)
            and (self.from_us is None or origin.at_us >= self.from_us)
            and (self.until_us is None or origin.at_us < self.until_us)
        )


def is_dead_letter_sink(name: str) -> bool:
    """Return whether a sink holds dead letters."""
    return name.endswith(RESERVED_SUFFIX)


def dead_letter_sink_name(origin: str) -> str:
    """Return the name of the dead-letter sink of a sink."""
    return origin + RESERVED_SUFFIX


def dead_letter_settings(origin: SinkSettings, defaults: SinkSettings) -> SinkSettings:
    """Return the settings of a dead-letter sink.

    They are the origin's partitions, the broker's bound in bytes, and rejection when full: nothing is dropped.
    """
    return replace(
        DEFAULTS,
        partitions=origin.partitions,
        max_total_bytes=defaults.max_total_bytes,
        max_disk_cache=0,
        overflow=int(Overflow.REJECT),
    )


def whole_page(entry: Entry, body: Body, wanted: Sequence[Range], *, with_body: bool) -> list[Cut]:
    """Return the records of a page that cannot be cut: the first holds the body, the others are empty.

    Without ``with_body`` all are empty: an earlier dead letter of the page holds the body.
    """
    offsets = [offset for part in wanted for offset in range(part.first, part.end)]
    first = bytes(body.data) if with_body else b""
    return [
        Cut(offset, entry.accepted_at_us, "", PlainRecord(b"" if index else first))
        for index, offset in enumerate(offsets)
    ]


def to_dead_letter(record: PlainRecord, origin: Origin, uncut: str = "") -> PlainRecord:
    """Return a record as a dead letter; ``uncut`` is why it could not be cut out of its page."""
    texts = (
        origin.reason.name,
        origin.error,
        str(origin.attempts),
        origin.subscription,
        origin.sink,
        origin.incarnation,
        str(origin.partition),
        str(origin.offset),
        (_EPOCH + timedelta(microseconds=origin.at_us)).isoformat(timespec="microseconds"),
        origin.traceparent,
    )
    ours = tuple((name, text.encode()) for name, text in zip(NAMES, texts, strict=True))
    last = ((UNCUT, uncut.encode()),) if uncut else ()
    return replace(record, headers=(*record.headers, *ours, *last))


def from_dead_letter(cut: Cut) -> DeadLetter:
    """Return a record of a dead-letter sink as the original record with its origin."""
    headers, uncut = cut.record.headers, ""
    if headers and headers[-1][0] == UNCUT:
        headers, uncut = headers[:-1], headers[-1][1].decode(errors="replace")
    ours = headers[-len(NAMES) :]
    origin = None
    if tuple(name for name, _ in ours) == NAMES:
        origin = _origin([value for _, value in ours])
    if origin is None:
        return DeadLetter(cut.offset, cut.accepted_at_us, None, cut.record)
    record = replace(cut.record, headers=headers[: -len(NAMES)])
    return DeadLetter(cut.offset, cut.accepted_at_us, origin, record, uncut)


def _origin(values: Sequence[bytes]) -> Origin | None:
    try:
        reason, error, attempts, subscription, sink, incarnation, partition, offset, time, trace = (
            value.decode() for value in values
        )
        since = datetime.fromisoformat(time) - _EPOCH
        at_us = since // timedelta(microseconds=1)
        place = int(partition), int(offset)
        return Origin(
            RejectionReason[reason], error, int(attempts), subscription, sink, incarnation, *place, at_us, trace
        )
    except (ValueError, KeyError, TypeError):  # not written by a broker
        return None


def chunks(
    records: Iterable[tuple[int, PlainRecord, str]],
    *,
    records_max: int = PAGE_RECORDS_MAX,
    bytes_max: int = PAGE_BYTES_MAX,
) -> Iterator[list[tuple[int, PlainRecord, str]]]:
    """Yield lists of (offset, record, trace), each of which fits into one page."""
    chosen: list[tuple[int, PlainRecord, str]] = []
    size = 0
    for each in records:
        length = each[1].size
        if chosen and (size + length > bytes_max or len(chosen) >= records_max):
            yield chosen
            chosen, size = [], 0
        chosen.append(each)
        size += length
    if chosen:
        yield chosen


def ranges_of(offsets: Iterable[int]) -> list[Range]:
    """Return rising offsets as ranges."""
    found: list[Range] = []
    for offset in offsets:
        if found and found[-1].end == offset:
            found[-1] = Range(found[-1].first, offset + 1)
        else:
            found.append(Range(offset, offset + 1))
    return found
