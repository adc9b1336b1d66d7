"""Records of a body as columns of Python values, or one by one."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice, pairwise
from typing import Final

from forebay.page import numbers
from forebay.page.count import checked_lengths
from forebay.page.format import NO_KEY, NO_TIME, Bytes
from forebay.page.header_pairs import Headers, entries_of, pairs_of
from forebay.page.runs import Run, runs_of

_VALUES_AT_ONCE: Final = 64
"""Values of one size that are cut at a time."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Records as columns of equal length."""

    values: list[bytes]
    keys: list[bytes | None] | None
    """``None`` when no record has a key."""
    event_times_us: list[int | None] | None
    """Microseconds since 1970 UTC; ``None`` when no record has one."""
    headers: list[Headers] | None
    """``None`` when no record has any."""
    unreadable: Mapping[int, str] = field(default_factory=dict)
    """Index of each record that cannot be decoded, with the reason; its value is empty."""

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.values)

    def part(self, first: int, end: int) -> Columns:
        """Return the records with the indices from ``first`` to below ``end``."""
        return Columns(
            self.values[first:end],
            None if self.keys is None else self.keys[first:end],
            None if self.event_times_us is None else self.event_times_us[first:end],
            None if self.headers is None else self.headers[first:end],
            {index - first: why for index, why in self.unreadable.items() if first <= index < end},
        )


@dataclass(frozen=True, slots=True)
class PageRecord:
    """A single record."""

    value: bytes
    key: bytes | None
    event_time_us: int | None
    headers: Headers
    headers_omitted: int = 0
    """Headers that were left out because of a bound."""


def columns_of(runs: Sequence[Run]) -> Columns:
    """Return the records of some runs. Raises ``MalformedPage`` where columns contradict each other."""
    every = [_columns(run) for run in runs]
    return every[0] if len(every) == 1 else _joined(every)


def records_at(
    body: Bytes, wanted: Sequence[tuple[int, int]], *, headers_max: int | None = None
) -> Iterator[tuple[int, PageRecord]]:
    """Yield the index and record of each ``wanted`` index.

    ``wanted`` holds sorted, disjoint ranges ``[first, end)`` of indices. Only these records become objects, with at
    most ``headers_max`` headers each. Raises ``MalformedPage``.
    """
    base = 0
    for run in runs_of(body):
        end = base + len(run)
        inside = [(max(first, base), min(after, end)) for first, after in wanted if first < end and after > base]
        if inside:
            reader = _RunReader(run)
            for first, after in inside:
                for index in range(first, after):
                    yield index, reader.record(index - base, headers_max)
        base = end


class _RunReader:
    """Random access to the records of one run."""

    def __init__(self, run: Run) -> None:
        lengths, self._key_lengths = checked_lengths(run)
        self._run = run
        self._value_ends = [0, *accumulate(lengths)]
        self._key_ends = [0, *accumulate(0 if length == NO_KEY else length for length in self._key_lengths)]
        self._times = numbers.read(run.event_times_us, "q")

    def record(self, index: int, headers_max: int | None) -> PageRecord:
        run = self._run
        key = None
        if self._key_lengths and self._key_lengths[index] != NO_KEY:
            key = bytes(run.keys[self._key_ends[index] : self._key_ends[index + 1]])
        time = self._times[index] if self._times else NO_TIME
        entries = entries_of(run.headers[index]) if run.headers else ()
        headers = tuple((header.key, header.value) for header in islice(entries, headers_max))
        return PageRecord(
            bytes(run.values[self._value_ends[index] : self._value_ends[index + 1]]),
            key,
            None if time == NO_TIME else time,
            headers,
            len(entries) - len(headers),
        )


def _columns(run: Run) -> Columns:
    lengths, key_lengths = checked_lengths(run)
    return Columns(
        _values(lengths, run.values),
        _keys(key_lengths, run.keys) if key_lengths else None,
        _times(numbers.read(run.event_times_us, "q")) if run.event_times_us else None,
        pairs_of(run.headers) if run.headers else None,
    )


def _values(lengths: array[int], column: memoryview) -> list[bytes]:
    if numbers.is_one_size(lengths) and lengths[0]:
        return _of_one_size(lengths[0], column)
    joined = bytes(column)
    return [joined[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]


def _of_one_size(size: int, column: memoryview) -> list[bytes]:
    """Divide a column of values of one size: many at a time, the rest one by one."""
    row_bytes = size * _VALUES_AT_ONCE
    whole = column.nbytes // row_bytes * row_bytes
    values: list[bytes] = []
    if whole:
        values.extend(chain.from_iterable(struct.iter_unpack(f"{size}s" * _VALUES_AT_ONCE, column[:whole])))
    values.extend(value for (value,) in struct.iter_unpack(f"{size}s", column[whole:]))
    return values


def _times(times: array[int]) -> list[int | None]:
    return [None if time == NO_TIME else time for time in times] if NO_TIME in times else [*times]


def _keys(lengths: array[int], column: memoryview) -> list[bytes | None]:
    if NO_KEY not in lengths:
        return [*_values(lengths, column)]
    joined = bytes(column)
    keys: list[bytes | None] = []
    at = 0
    for length in lengths:
        if length == NO_KEY:
            keys.append(None)
            continue
        keys.append(joined[at : at + length])
        at += length
    return keys


def _joined(every: list[Columns]) -> Columns:
    """Return several runs as one; a column that some of them lack is filled with defaults."""
    return Columns(
        [value for columns in every for value in columns.values],
        [key for columns in every for key in columns.keys or [None] * len(columns)]
        if any(columns.keys is not None for columns in every)
        else None,
        [time for columns in every for time in columns.event_times_us or [None] * len(columns)]
        if any(columns.event_times_us is not None for columns in every)
        else None,
        [entries for columns in every for entries in columns.headers or [()] * len(columns)]
        if any(columns.headers is not None for columns in every)
        else None,
    )
