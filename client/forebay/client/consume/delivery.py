"""Delivery: consecutive records of one partition, to be processed and settled.

A delivery decodes its pages on access. It ends early when its records become void: after the user's own nack, when the
broker revokes them, or when the connection broke. The records are then redelivered in a new delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from opentelemetry.context import Context
from opentelemetry.trace import set_span_in_context

from forebay.client.consume.answers import AnswerKind
from forebay.client.consume.delivered_run import DeliveredRun
from forebay.client.consume.in_flight import InFlight
from forebay.client.errors import InvalidArgument
from forebay.client.replay.columns import lazy_columns, unreadable_error, wanted_columns, whole_columns
from forebay.client.replay.row_columns import RowColumns
from forebay.client.values.ranges import Range, intersect
from forebay.client.values.records import DeliveredRecord, Durability, Gap, SettleResult, StoredPage
from forebay.client.values.sink_settings import Ordering
from forebay.errors.reasons import Reason
from forebay.page.columns import Columns

DELAY_S_MAX = 24 * 3600.0


R_co = TypeVar("R_co", covariant=True)


class Settler(Protocol[R_co]):
    """Receiver of a delivery's answers. Called by the user."""

    @property
    def clock(self) -> Callable[[], float]:
        """Clock of the ack deadlines, in seconds."""

    def touch(self, delivery: InFlight) -> float:
        """Record that the user is processing; extend the ack deadline if it is due.

        Return the time of ``clock`` from which on an extension may be due again.
        """

    def settle(
        self,
        delivery: InFlight,
        verb: AnswerKind,
        ranges: list[Range],
        *,
        delay_s: float | None = None,
        reason: str = "",
        wait: bool = False,
    ) -> R_co:
        """Send an answer; with ``wait`` return its results, otherwise nothing."""


class DeliveredRange(Generic[R_co]):
    """Records of one partition, or a gap; ``R_co`` is the result of an answer."""

    def __init__(self, in_flight: InFlight, settler: Settler[R_co]) -> None:
        self._in_flight = in_flight
        self._settler = settler
        self._columns: list[Columns | RowColumns | None] = [None] * len(in_flight.pages)
        self._whole: tuple[int, Columns] | None = None
        """Page that was decoded last."""

    @property
    def partition(self) -> int:
        """Partition of the records."""
        return self._in_flight.partition

    @property
    def incarnation(self) -> str:
        """Incarnation of the sink; (incarnation, partition, offset) identifies a record permanently."""
        return self._in_flight.incarnation

    @property
    def resend(self) -> bool:
        """True if at least one record was delivered before."""
        return self._in_flight.resend

    @property
    def durability(self) -> Durability:
        """Durability level of the records."""
        return self._in_flight.durability

    @property
    def ordering(self) -> Ordering:
        """Order of the sink. In RELAXED order, only rejected records are redelivered."""
        return self._in_flight.ordering

    @property
    def relaxed(self) -> bool:
        """True if a nack voids no other record."""
        return self._in_flight.relaxed

    @property
    def gap(self) -> Gap | None:
        """Missing offsets; such a delivery has no records."""
        return self._in_flight.gap

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Offsets to process, both ends included."""
        return self._in_flight.ranges

    @property
    def valid_ranges(self) -> tuple[Range, ...]:
        """Offsets of ``ranges`` that are not void, both ends included."""
        return self._in_flight.valid_ranges

    @property
    def first_offset(self) -> int:
        """First offset of the records or the gap."""
        return self._in_flight.first_offset

    @property
    def last_offset(self) -> int:
        """Last offset of the records or the gap."""
        return self._in_flight.last_offset

    @property
    def stored_bytes(self) -> int:
        """Bytes of the stored pages, also of what was not requested of them; 0 for a gap."""
        return sum(len(page.body) for page in self._in_flight.pages)

    @property
    def stale(self) -> bool:
        """True if all records are void: they are redelivered, and answers have no effect."""
        return self._in_flight.stale

    @property
    def traceparents(self) -> tuple[str, ...]:
        """W3C trace contexts of the sends of these records."""
        return self._in_flight.traceparents

    @property
    def trace_context(self) -> Context | None:
        """OpenTelemetry context of the processing, for your own spans; None for a gap or once settled."""
        span = self._in_flight.span
        return None if span is None else set_span_in_context(span)

    def __len__(self) -> int:
        """Return the number of records to process."""
        return len(self._in_flight)

    def __repr__(self) -> str:
        """Return partition and offsets, never contents."""
        kind = "Gap" if self.gap is not None else "Delivery"
        return f"<{kind} partition={self.partition} offsets={self.first_offset}-{self.last_offset}>"

    def __iter__(self) -> Iterator[DeliveredRecord]:
        """Yield the records in order; ends early when they become void. Extends the deadline if it is due.

        Raises ``InvalidPage`` with the offset at a record that cannot be decoded: see ``with_unreadable``.
        """
        return self._records(unreadable_too=False)

    def with_unreadable(self) -> Iterator[DeliveredRecord]:
        """Yield all records, including those that cannot be decoded.

        Such a record has an empty value, and ``unreadable`` is the reason: its page has damaged content, or its writer
        sent something other than rows. ``dead_letter`` stores it as it was published; later records are unaffected.
        """
        return self._records(unreadable_too=True)

    def _records(self, *, unreadable_too: bool) -> Iterator[DeliveredRecord]:
        settler, in_flight = self._settler, self._in_flight
        clock = settler.clock
        due_at = settler.touch(in_flight)
        for index, page in enumerate(in_flight.pages):
            columns = self._decoded(index)
            unreadable = {} if unreadable_too else columns.unreadable
            for record in DeliveredRun(in_flight, page, columns):
                if in_flight.void_from is not None and record.offset >= in_flight.void_from:
                    return
                if clock() >= due_at:
                    due_at = settler.touch(in_flight)
                if unreadable and record.unreadable:
                    raise unreadable_error(page, record.offset, record.unreadable)
                yield record

    def runs(self) -> Iterator[DeliveredRun]:
        """Yield the records in runs of consecutive ones, as columns; much faster than iteration.

        Ends early when the records become void. Includes records that cannot be decoded, as ``with_unreadable``.
        """
        in_flight = self._in_flight
        for index, page in enumerate(in_flight.pages):
            self._settler.touch(in_flight)
            run = DeliveredRun(in_flight, page, self._decoded(index))
            valid = len(run) if in_flight.void_from is None else in_flight.void_from - run.first_offset
            if valid < len(run):
                if valid > 0:
                    yield run.part(0, valid)
                return
            yield run

    def values(self) -> list[bytes]:
        """Return all values at once, which is much faster than iteration.

        Raises ``InvalidPage`` if a record cannot be decoded.
        """
        void_from = self._in_flight.void_from
        self._settler.touch(self._in_flight)
        for index, page in enumerate(self._in_flight.pages):
            for position, why in self._decoded(index).unreadable.items():
                if void_from is None or page.first_offset + position < void_from:
                    raise unreadable_error(page, page.first_offset + position, why)
        found = [value for index in range(len(self._columns)) for value in self._decoded(index).values]
        return found if void_from is None else found[: len(self)]

    def pages(self) -> tuple[StoredPage, ...]:
        """Return the stored pages with their requested ranges."""
        self._settler.touch(self._in_flight)
        return self._in_flight.pages

    def extend(self) -> None:
        """Extend the ack deadline if it is due, for long work between records; iteration also does this."""
        self._settler.touch(self._in_flight)

    def ack(self, first: int | None = None, last: int | None = None, *, wait: bool = False) -> R_co:
        """Settle the records from ``first`` to ``last``; only ``first``, or all if neither is given.

        Returns immediately without results. With ``wait``, returns one result per range when the broker has answered.
        Raises ``DeadlineExceeded`` after ``call_timeout_s``; the same call then waits for the same answer. An answer to
        void records is not sent; its result is ``STALE``. Raises ``INVALID_RANGE`` for offsets outside of the delivery.
        """
        return self._settle(AnswerKind.ACK, first, last, wait=wait)

    def ack_until(self, offset: int, *, wait: bool = False) -> R_co:
        """Settle all records of the partition up to ``offset``, including records that were not delivered."""
        ranges = [] if self.gap is not None else [(min(self.first_offset, offset), offset)]
        return self._settler.settle(self._in_flight, AnswerKind.ACK_UNTIL, ranges, wait=wait)

    def nack(
        self, *, offset: int | None = None, delay_s: float | None = None, reason: str = "", wait: bool = False
    ) -> R_co:
        """Reject the record at ``offset``, or all unsettled records, for redelivery.

        Redelivery is not before ``delay_s``, by default after the sink's back-off. In STRICT order all later records
        are redelivered after it; in RELAXED order they stay to be settled.
        """
        if offset is None:
            return self.nack_from(self.first_offset, delay_s=delay_s, reason=reason, wait=wait)
        return self.nack_from(offset, last=offset, delay_s=delay_s, reason=reason, wait=wait)

    def nack_from(
        self,
        offset: int,
        *,
        last: int | None = None,
        delay_s: float | None = None,
        reason: str = "",
        wait: bool = False,
    ) -> R_co:
        """Reject the unsettled records from ``offset`` on, or up to ``last``; counts as a failed attempt.

        In STRICT order all later queued records of the partition become void, because they are redelivered after these.
        """
        if delay_s is not None and not 0 <= delay_s <= DELAY_S_MAX:
            raise InvalidArgument(f"delay_s = {delay_s}: must be 0 to {DELAY_S_MAX:g}", reason=Reason.INVALID_NACK)
        until = self.last_offset if last is None else last
        return self._settle(AnswerKind.NACK, offset, until, delay_s=delay_s, reason=reason, wait=wait)

    def dead_letter(
        self, reason: str, *, offset: int | None = None, last: int | None = None, wait: bool = False
    ) -> R_co:
        """Move the record at ``offset``, those up to ``last``, or all unsettled records to the dead letters.

        For records that the target rejects permanently; later records are unaffected. With ``wait``, as ``ack``.
        """
        return self._settle(AnswerKind.DEAD_LETTER, offset, last, reason=reason, wait=wait)

    def drop(self, reason: str, *, offset: int | None = None, wait: bool = False) -> R_co:
        """Settle the record at ``offset``, or all unsettled records, as dropped.

        For records that the target rejects permanently and that are not kept as dead letters. They are counted in the
        subscription's account and recorded as a gap of the subscription.
        """
        return self._settle(AnswerKind.DROP, offset, None, reason=reason, wait=wait)

    def _settle(
        self,
        verb: AnswerKind,
        first: int | None,
        last: int | None,
        *,
        delay_s: float | None = None,
        reason: str = "",
        wait: bool = False,
    ) -> R_co:
        if self.gap is not None:
            return self._settler.settle(self._in_flight, verb, [])
        if first is None:
            first, last = self.first_offset, self.last_offset if last is None else last
        elif last is None:
            last = first
        if not self.first_offset <= first <= last <= self.last_offset:
            raise InvalidArgument(
                f"offsets {first} to {last}: must be within {self.first_offset} to {self.last_offset}",
                reason=Reason.INVALID_RANGE,
            )
        ranges = intersect(self.ranges, first, last)
        return self._settler.settle(self._in_flight, verb, ranges, delay_s=delay_s, reason=reason, wait=wait)

    def _decoded(self, index: int) -> Columns | RowColumns:
        columns = self._columns[index]
        if columns is None:
            page = self._in_flight.pages[index]
            if len(page) == page.record_count:
                columns = self._columns[index] = lazy_columns(page)
                return columns
            # Several parts of one page may be requested: it is decoded once for consecutive ones. They have their own
            # values, and do not hold the page.
            if self._whole is None or self._whole[0] != page.base_offset:
                self._whole = page.base_offset, whole_columns(page)
            columns = self._columns[index] = wanted_columns(page, self._whole[1])
        return columns


class Delivery(DeliveredRange[list[SettleResult]]):
    """Records of one partition, or a gap. Created by a :class:`Subscriber`. Not thread-safe."""
