"""Delivery that is made of several consecutive ones of a partition.

A batch may be larger than one message of the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import get_current_span

from forebay.deliver.source import RecordRun, SettledRange, SourceDelivery

LINKS_MAX: Final = 128
"""Deliveries that the spans of a batch are linked to: an SDK keeps no more links of a span by default."""


class JoinedDelivery:
    """A `SourceDelivery`. An answer goes to the deliveries whose offsets it is about."""

    gap: Final = None

    def __init__(self, parts: Sequence[SourceDelivery]) -> None:
        """``parts`` are at least two in ascending order; none is a gap."""
        self.parts: Final = tuple(parts)
        first = parts[0]
        self.partition: Final = first.partition
        self.incarnation: Final = first.incarnation
        self.relaxed: Final = first.relaxed
        self.resend: Final = first.resend
        self.first_offset: Final = first.first_offset
        self.last_offset: Final = parts[-1].last_offset
        self._dead_lettered: Final[dict[tuple[int, int], Sequence[SettledRange]]] = {}
        """Results for offsets whose answers have come: a repeated call asks for the others only."""

    @property
    def stored_bytes(self) -> int:
        """Bytes of the stored pages."""
        return sum(part.stored_bytes for part in self.parts)

    @property
    def valid_ranges(self) -> Sequence[tuple[int, int]]:
        """Offsets that are not void, both ends included."""
        return [found for part in self.parts for found in part.valid_ranges]

    @property
    def trace_context(self) -> Context | None:
        """Context of the processing of the first delivery that is sampled, or else of the first one."""
        contexts = self.trace_contexts
        sampled = (one for one in contexts if get_current_span(one).get_span_context().trace_flags.sampled)
        return next(sampled, contexts[0] if contexts else None)

    @property
    def trace_contexts(self) -> list[Context]:
        """Contexts of the processing of the first `LINKS_MAX` deliveries."""
        return [one for part in self.parts[:LINKS_MAX] if (one := part.trace_context) is not None]

    def runs(self) -> Iterator[RecordRun]:
        """Yield the records that are not void, including undecodable ones; extends the deadlines that are due."""
        return chain.from_iterable(part.runs() for part in self.parts)

    def extend(self) -> None:
        """Extend the ack deadlines that are due."""
        for part in self.parts:
            part.extend()

    def ack(self, first: int | None = None, last: int | None = None) -> None:
        """Settle the offsets ``first`` to ``last``, both included."""
        for part, begin, end in self._parts(first, last):
            part.ack(begin, end)

    def nack_from(
        self, offset: int, *, last: int | None = None, delay_s: float | None = None, reason: str = ""
    ) -> None:
        """Reject ``offset`` and all later ones, or up to ``last``, for redelivery not before ``delay_s``.

        In STRICT order the nack of a delivery voids all later ones.
        """
        for part, begin, end in self._parts(offset, last):
            part.nack_from(begin, last=end, delay_s=delay_s, reason=reason)
            if not self.relaxed:
                return

    def dead_letter(
        self, reason: str, *, offset: int | None = None, last: int | None = None, wait: bool = False
    ) -> Sequence[SettledRange]:
        """Dead-letter ``offset``, or all up to ``last``; with ``wait`` return the results.

        Raises ``DeadlineExceeded`` if there is no answer in time; the same call then waits for the same answer.
        """
        last = offset if last is None else last
        results: list[SettledRange] = []
        for part, begin, end in self._parts(offset, last):
            found = self._dead_lettered.get((begin, end))
            if found is None:
                found = part.dead_letter(reason, offset=begin, last=end, wait=wait) or ()
                if wait:
                    self._dead_lettered[begin, end] = found
            results += found
        return results

    def _parts(self, first: int | None, last: int | None) -> Iterator[tuple[SourceDelivery, int, int]]:
        """Yield the deliveries that have some of the offsets, with these."""
        first = self.first_offset if first is None else first
        last = self.last_offset if last is None else last
        for part in self.parts:
            if part.first_offset <= last and part.last_offset >= first:
                yield part, max(first, part.first_offset), min(last, part.last_offset)
