"""What a dead letter is: the record as it was, and behind its own headers ten more that say what became of it.

The ten always stand last and in this order, so that taking them off gives the record back exactly, whatever headers
it came with. Values are UTF-8; a person reads them with `forebay peek`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Final, Protocol

from forebay.broker.core.partition.pages import Body, Entry, Incoming
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import DEFAULTS, RESERVED_SUFFIX, Overflow, SinkSettings
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
"""Header behind the others of a record that could not be cut out of its page: the cause."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Reason(IntEnum):
    """Why a record became a dead letter; the numbers are those of the wire."""

    REJECTED = 1
    """The consumer said that the target will never take it."""

    MAX_ATTEMPTS = 2
    """It has failed `max_attempts` times."""


@dataclass(frozen=True, slots=True)
class PlainRecord:
    """A record cut out of its page."""

    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    event_time_us: int | None = None

    @property
    def size(self) -> int:
        """At least what it takes of a body: its bytes, its places in the columns, frames around its headers."""
        headers = sum(len(name.encode()) + len(value) + 12 for name, value in self.headers)
        return len(self.value) + len(self.key or b"") + headers + 24


@dataclass(frozen=True, slots=True)
class Cut:
    """A record and where it was cut out."""

    offset: int
    accepted_at_us: int
    traceparent: str
    record: PlainRecord
    uncut: str = ""
    """Why it cannot be read by itself: its value is the body of a page with this row alone, as it was published."""


class RecordCodec(Protocol):
    """Looks into pages, which nothing else here does. Blocking; called in a read thread."""

    def cut(
        self, entry: Entry, body: Body, wanted: Sequence[Range], schema_of: Callable[[int], SchemaRecord]
    ) -> list[Cut]:
        """The records of a page whose offsets are in ``wanted`` (sorted, apart), by offset.

        ``schema_of`` gives a version of the schema of the page's sink, or raises ``SchemaNotFound``; ``InvalidPage`` is
        raised where no row can be cut out, since they are not what the publisher said.
        """

    def page(self, records: Sequence[PlainRecord], partition: int, traceparent: str) -> Incoming:
        """A page of records for a partition."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record became a dead letter, and why."""

    reason: Reason
    error: str
    """What the target said, or what the last failure was."""

    attempts: int
    """Tries that failed."""

    subscription: str
    sink: str
    incarnation: str
    partition: int
    offset: int
    at_us: int
    """Wall clock when it became one."""

    traceparent: str = ""
    """W3C context of its publisher, or empty."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record of a dead-letter sink, taken apart."""

    offset: int
    """Where it stands in the dead-letter sink."""

    accepted_at_us: int
    """When it came there."""

    origin: Origin | None
    """None for a record without our headers."""

    record: PlainRecord
    """As it was published."""

    uncut: str = ""
    """Why it could not be cut out of its page, or read: its value is the body of that page then, or of a page with this
    row alone, or empty; see ``whole_page``."""

    @property
    def redrivable(self) -> bool:
        """It is a record of a sink, and the record itself is here."""
        return self.origin is not None and not self.uncut


@dataclass(frozen=True, slots=True)
class Filter:
    """Which dead letters are meant; what is None or empty selects all."""

    reason: Reason | None = None
    error_contains: str = ""
    subscription: str = ""
    partition: int | None = None
    """Partition of the origin."""

    offsets: Range | None = None
    """Offsets in the origin."""

    from_us: int | None = None
    """When they became dead letters: from here on ..."""

    until_us: int | None = None
    """... to before here."""

    def takes(self, letter: DeadLetter) -> bool:
        """Whether a dead letter is meant."""
        origin = letter.origin
        if origin is None:
            return self == Filter()
        return (
            (self.reason is None or origin.reason is self.reason)
            and self.error_contains in origin.error
            and self.subscription in ("", origin.subscription)
            and (self.partition is None or origin.partition == self.partition)
            and (self.offsets is None or self.offsets.first <= origin.offset < self.offsets.end)
            and (self.from_us is None or origin.at_us >= self.from_us)
            and (self.until_us is None or origin.at_us < self.until_us)
        )


def is_dead_letter_sink(name: str) -> bool:
    """Whether a sink holds dead letters."""
    return name.endswith(RESERVED_SUFFIX)


def dead_letter_sink_name(origin: str) -> str:
    """The dead-letter sink of a sink."""
    return origin + RESERVED_SUFFIX


def dead_letter_settings(origin: SinkSettings, defaults: SinkSettings) -> SinkSettings:
    """Settings of a dead-letter sink: the origin's partitions, the broker's bound in bytes, and nothing is dropped."""
    return replace(
        DEFAULTS,
        partitions=origin.partitions,
        max_total_bytes=defaults.max_total_bytes,
        max_disk_cache=0,
        overflow=int(Overflow.REJECT),
    )


def whole_page(entry: Entry, body: Body, wanted: Sequence[Range], *, with_body: bool) -> list[Cut]:
    """Records of a page that cannot be cut: the first one's value is the page's body, the others' are empty.

    Without ``with_body`` all are empty: the body was kept with an earlier dead letter of the page.
    """
    offsets = [offset for part in wanted for offset in range(part.first, part.end)]
    first = bytes(body.data) if with_body else b""
    return [
        Cut(offset, entry.accepted_at_us, "", PlainRecord(b"" if index else first))
        for index, offset in enumerate(offsets)
    ]


def buried(record: PlainRecord, origin: Origin, uncut: str = "") -> PlainRecord:
    """A record as a dead letter; ``uncut`` is why it could not be cut out of its page."""
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


def unburied(cut: Cut) -> DeadLetter:
    """A record of a dead-letter sink as what it was, and what became of it."""
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
        return Origin(Reason[reason], error, int(attempts), subscription, sink, incarnation, *place, at_us, trace)
    except (ValueError, KeyError, TypeError):  # not written by us
        return None


def chunks(
    records: Iterable[tuple[int, PlainRecord, str]],
    *,
    records_max: int = PAGE_RECORDS_MAX,
    bytes_max: int = PAGE_BYTES_MAX,
) -> Iterator[list[tuple[int, PlainRecord, str]]]:
    """Records (offset, record, trace) in lists that are a page each."""
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
    """Rising offsets as ranges."""
    found: list[Range] = []
    for offset in offsets:
        if found and found[-1].end == offset:
            found[-1] = Range(found[-1].first, offset + 1)
        else:
            found.append(Range(offset, offset + 1))
    return found
