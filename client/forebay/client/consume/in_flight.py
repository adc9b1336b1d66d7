"""State of one delivery in flight: its unanswered and its void offsets, its owner epoch and times.

The subscriber holds it. Users see ``Delivery``, which reads this state and sends their answers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from opentelemetry.trace import Span

from forebay.client.values.ranges import Range, count, intersect, merge, without
from forebay.client.values.records import Durability, Gap, StoredPage
from forebay.client.values.sink_settings import Ordering


class Loading:
    """Fetch of the schemas of a delivery, beside the stream, before its records can be read."""

    __slots__ = ("is_done",)

    def __init__(self, *, is_done: bool = False) -> None:
        self.is_done = is_done


LOADED: Final = Loading(is_done=True)
"""Nothing is fetched."""


class InFlight:
    """Records of one partition, or a gap. Changed under the subscriber's lock."""

    __slots__ = (
        "attempts",
        "durability",
        "extended_at",
        "gap",
        "incarnation",
        "left",
        "loading",
        "ordering",
        "owner_epoch",
        "pages",
        "partition",
        "ranges",
        "resend",
        "revision",
        "span",
        "taken_at",
        "touch_at",
        "void_from",
    )

    def __init__(
        self,
        *,
        partition: int,
        incarnation: str,
        owner_epoch: int = 0,
        revision: int = 0,
        pages: tuple[StoredPage, ...] = (),
        attempts: dict[int, int] | None = None,
        resend: bool = False,
        durability: Durability = Durability.DISK,
        gap: Gap | None = None,
        ordering: Ordering = Ordering.STRICT,
        loading: Loading = LOADED,
    ) -> None:
        self.partition = partition
        self.incarnation = incarnation
        self.owner_epoch = owner_epoch
        self.revision = revision
        self.pages = pages
        """Pages with their requested ranges, by ascending offset."""
        self.attempts = attempts or {}
        """Attempts per offset; an offset that is missing has none."""
        self.resend = resend
        self.durability = durability
        self.gap = gap
        self.ordering = ordering
        self.loading = loading
        self.ranges: tuple[Range, ...] = tuple(merge((page.first_offset, page.last_offset) for page in pages))
        """Offsets to process, both ends included."""
        self.left: list[Range] = list(self.ranges)
        """Unanswered offsets."""
        self.void_from: int | None = None
        """Offset from which on the records are void."""
        self.span: Span | None = None
        """Span of the processing, until it has ended."""
        self.taken_at = 0.0
        """Time at which the user took the delivery."""
        self.touch_at = 0.0
        """Time of the next check whether an extension is due while it is processed."""
        self.extended_at = 0.0
        """Time at which the ack deadline of this delivery was last extended, in RELAXED order."""

    @property
    def first_offset(self) -> int:
        """First offset of the records or the gap."""
        return self.ranges[0][0] if self.gap is None else self.gap.first_offset

    @property
    def last_offset(self) -> int:
        """Last offset of the records or the gap."""
        return self.ranges[-1][1] if self.gap is None else self.gap.last_offset

    @property
    def valid_ranges(self) -> tuple[Range, ...]:
        """Offsets to process that are not void."""
        return self.ranges if self.void_from is None else tuple(intersect(self.ranges, 0, self.void_from - 1))

    @property
    def stale(self) -> bool:
        """True if all records are void."""
        return self.void_from is not None and self.void_from <= self.first_offset

    @property
    def relaxed(self) -> bool:
        """True if a nack voids no other record."""
        return self.ordering is Ordering.RELAXED

    @property
    def traceparents(self) -> tuple[str, ...]:
        """W3C trace contexts of the sends of these records."""
        return tuple(part.traceparent for page in self.pages for part in page.parts if part.traceparent)

    def __len__(self) -> int:
        """Return the number of records that are not void."""
        return count(self.valid_ranges)

    def settle(self, ranges: list[Range]) -> None:
        """Record that these ranges were answered."""
        self.left = without(self.left, ranges)

    def void(self, from_offset: int) -> None:
        """Void the records from ``from_offset`` on."""
        self.void_from = from_offset if self.void_from is None else min(self.void_from, from_offset)
        self.left = intersect(self.left, 0, from_offset - 1)

    def below(self, from_offset: int) -> InFlight | None:
        """Return an untaken delivery without the records from ``from_offset`` on, None if none are left."""
        if self.first_offset >= from_offset:
            return None
        if self.last_offset < from_offset or self.gap is not None:
            return self
        kept = [page for page in self.pages if page.first_offset < from_offset]
        kept[-1] = replace(kept[-1], last_offset=min(kept[-1].last_offset, from_offset - 1))
        return InFlight(
            partition=self.partition,
            incarnation=self.incarnation,
            owner_epoch=self.owner_epoch,
            revision=self.revision,
            pages=tuple(kept),
            attempts=self.attempts,
            resend=self.resend,
            durability=self.durability,
            ordering=self.ordering,
            loading=self.loading,
        )
