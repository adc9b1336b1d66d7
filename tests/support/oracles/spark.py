"""Says from outside whether a query's micro-batches are in a sink once, and whole at every moment.

A look reads one partition after the other. So a batch that was seen in a partition has to be there, with all its rows,
in every partition that was read later; and no part of it may ever end in mid air. What Spark had written down as
committed before a look has to be in it. A row's number says which batch it belongs to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

NONE: Final = -1
"""Represents no batch."""


@dataclass(frozen=True, slots=True)
class Look:
    """Records of a sink in one read of its partitions."""

    promised: int
    """The last batch that Spark called committed before; ``NONE`` where there was none."""

    ends: tuple[tuple[int, int], ...]
    """Partition and number of records in it, in the order of reading."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Violations; all must be empty or 0."""

    lost: int
    """Numbers of the source that are not in the sink."""

    doubled: int
    """Records beyond the first of a number."""

    foreign: int
    """Records that are not of the source."""

    torn: frozenset[int]
    """Batches that are stored in more than one piece, or of which a read saw only a part."""

    forgotten: frozenset[int]
    """Batches that Spark called committed and a later look did not see."""


CLEAN: Final = Verdict(lost=0, doubled=0, foreign=0, torn=frozenset(), forgotten=frozenset())


@dataclass(frozen=True, slots=True)
class _Part:
    """The records of one batch in one partition."""

    batch: int
    first: int
    end: int


def judge(rows: Mapping[int, Sequence[int]], *, batches: int, batch_rows: int, looks: Iterable[Look]) -> Verdict:
    """Judge a run. ``rows`` are the numbers in the sink, by partition and offset; the source had ``batches``."""
    counts = Counter(number for numbers in rows.values() for number in numbers)
    known = range(batches * batch_rows)
    torn: set[int] = set()
    forgotten: set[int] = set()
    parts = {partition: _parts(numbers, batch_rows, torn) for partition, numbers in rows.items()}
    for look in looks:
        seen = NONE
        for partition, end in look.ends:
            first_unseen, cut = _unseen(parts[partition], end)
            if cut:
                torn.add(first_unseen)
            if NONE != first_unseen <= seen:
                torn.add(first_unseen)
            if NONE != first_unseen <= look.promised:
                forgotten.add(first_unseen)
            seen = max(seen, _last_seen(parts[partition], end))
    return Verdict(
        lost=sum(number not in counts for number in known),
        doubled=sum(count - 1 for count in counts.values()),
        foreign=sum(count for number, count in counts.items() if number not in known),
        torn=frozenset(torn),
        forgotten=frozenset(forgotten),
    )


def _parts(numbers: Sequence[int], batch_rows: int, torn: set[int]) -> list[_Part]:
    """Cut a partition into batches; one that reappears or is out of order is torn."""
    found: list[_Part] = []
    for offset, number in enumerate(numbers):
        batch = number // batch_rows
        if found and found[-1].batch == batch:
            found[-1] = _Part(batch, found[-1].first, offset + 1)
            continue
        if found and batch < found[-1].batch:
            torn.add(batch)
        found.append(_Part(batch, offset, offset + 1))
    return found


def _unseen(parts: Sequence[_Part], end: int) -> tuple[int, bool]:
    """Return the first batch that is not there up to ``end``, and whether a part of it is."""
    position = bisect_right(parts, end, key=lambda part: part.end)
    if position == len(parts):
        return NONE, False
    return parts[position].batch, parts[position].first < end


def _last_seen(parts: Sequence[_Part], end: int) -> int:
    """Return the last batch of which something is there up to ``end``."""
    position = bisect_right(parts, end - 1, key=lambda part: part.first)
    return parts[position - 1].batch if position else NONE
