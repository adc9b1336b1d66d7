"""Counts the records of a page without copying it: the columns are found by their tags, and only numbers are read.

The usual body, as our own publishers make it, holds each column once and in order. Whatever another writer may
legally do differently goes through protobuf, which copies all of it; so does a small body, for which that is faster.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import Final, Literal

from google.protobuf.message import DecodeError

from forebay.broker.core.errors import InvalidRequest, RequestTooLarge
from forebay.broker.core.pages import PAGE_BYTES_MAX, PAGE_FRAMING_BYTES, Bytes
from forebay.broker.rpc.header_counts import check_header_counts
from forebay.broker.rpc.requests.bounds import Bounds
from forebay.broker.rpc.requests.scan import check
from forebay.broker.rpc.requests.shapes import shape_of
from forebay.v1 import record_pb2

NO_KEY: Final = 0xFFFF_FFFF
NO_TIME: Final = -(1 << 63)
TIMES_US: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""Event times from the first to the last that a `Timestamp` holds: no reader could show another one."""
SMALL_BYTES: Final = 4_096
RUNS_MAX: Final = 4_096
"""Runs of a page that is published; each costs time, however short it is."""
_SHAPE: Final = shape_of(record_pb2.RecordPage.DESCRIPTOR)
_PAGE: Final = Bounds(bytes_max=1 << 30, elements_max=1 << 30, counts={"runs": RUNS_MAX})
"""Of a page with several records, whose headers take at most as much memory as a page of a megabyte may."""
_RECORD: Final = Bounds(bytes_max=1 << 30, elements_max=1_024)
"""Of a page with a single record, which may be larger."""
_RUN: Final = 0x0A
_COLUMNS: Final = (0x0A, 0x12, 0x1A, 0x22, 0x2A)
"""Value lengths, values, key lengths, keys, event times: the tags of a run without headers."""


def count_records(body: Bytes) -> int:
    """Records in the body of a page; raises ValueError when its columns contradict each other."""
    counted = None if len(body) < SMALL_BYTES else _usual(memoryview(body))
    return _any(body) if counted is None else counted


def _usual(body: memoryview) -> int | None:
    """The records of a body in the usual form; None for any other, which may be a damaged one."""
    total = runs = at = 0
    while at < len(body):
        if body[at] != _RUN:
            return None
        extent = _extent(body, at + 1)
        if extent is None:
            return None
        columns = _columns(body[extent[0] : extent[1]])
        if columns is None:
            return None
        total += _count(columns)
        runs += 1
        if runs > RUNS_MAX:
            raise ValueError(f"it has more than {RUNS_MAX} runs: join their columns")
        at = extent[1]
    return total


def _columns(run: memoryview) -> list[memoryview] | None:
    columns = [run[:0]] * len(_COLUMNS)
    at = last = 0
    while at < len(run):
        tag = run[at]
        extent = _extent(run, at + 1)
        if tag <= last or tag not in _COLUMNS or extent is None:
            return None
        columns[(tag >> 3) - 1] = run[extent[0] : extent[1]]
        last, at = tag, extent[1]
    lengths, _, key_lengths, _, times = columns
    return None if len(lengths) % 4 or len(key_lengths) % 4 or len(times) % 8 else columns


def _extent(body: memoryview, at: int) -> tuple[int, int] | None:
    """Start and end of the content whose length stands at ``at``; None when it is cut off."""
    length = shift = 0
    while at < len(body) and shift <= 28:
        byte = body[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (at, at + length) if at + length <= len(body) else None
        shift += 7
    return None


def _count(columns: list[memoryview]) -> int:
    lengths, values, key_lengths, keys, times = columns
    count = len(lengths) // 4
    if _total(lengths) != len(values):
        raise ValueError("the lengths of the values do not add up")
    if key_lengths:
        numbers = _numbers(key_lengths)
        if len(numbers) != count:
            raise ValueError("there are not as many keys as values")
        if sum(numbers) - NO_KEY * numbers.count(NO_KEY) != len(keys):
            raise ValueError("the lengths of the keys do not add up")
    if len(times) // 8 not in (0, count):
        raise ValueError("there are not as many event times as values")
    _check_times(_numbers(times, "q"))
    return count


def _total(lengths: memoryview) -> int:
    """The sum of 32-bit lengths; most pages have values of one size, which a comparison of memory finds."""
    numbers = _numbers(lengths)
    if numbers and numbers[1:] == numbers[:-1]:
        return len(numbers) * numbers[0]
    return sum(numbers)


def _check_times(times: Sequence[int]) -> None:
    """Raise for a time that would be a stumbling block for every reader: nanoseconds taken for microseconds, say."""
    if not times:
        return
    first, last = TIMES_US
    lowest = min(times)
    if lowest == NO_TIME:
        lowest = min((time for time in times if time != NO_TIME), default=first)
    if lowest < first or max(times) > last:
        raise ValueError("an event time is outside of the years 1 to 9999")


def _numbers(column: memoryview, kind: Literal["I", "q"] = "I") -> array[int]:
    numbers = array(kind)
    numbers.frombytes(column)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _check_parts(data: bytes) -> None:
    """Raise for what would take much more memory than it has bytes, before it does."""
    try:
        check(data, _SHAPE, _PAGE if len(data) <= PAGE_BYTES_MAX + PAGE_FRAMING_BYTES else _RECORD)
    except RequestTooLarge as error:
        found, bound = error.facts["found"], error.facts["bound"]
        raise ValueError(f"it has {found} or more {error.field}: at most {bound} are allowed") from error
    except InvalidRequest as error:
        raise ValueError("it cannot be parsed") from error


def _any(body: Bytes) -> int:
    data = bytes(body)
    if len(data) > SMALL_BYTES:
        _check_parts(data)
    try:
        page = record_pb2.RecordPage.FromString(data)
    except DecodeError as error:
        raise ValueError("it cannot be parsed") from error
    check_header_counts(data, page)
    total = 0
    for run in page.runs:
        count = len(run.value_lengths)
        if sum(run.value_lengths) != len(run.values):
            raise ValueError("the lengths of the values do not add up")
        if run.key_lengths:
            if len(run.key_lengths) != count:
                raise ValueError("there are not as many keys as values")
            if sum(length for length in run.key_lengths if length != NO_KEY) != len(run.keys):
                raise ValueError("the lengths of the keys do not add up")
        if len(run.event_times_us) not in (0, count) or len(run.headers) not in (0, count):
            raise ValueError("there are not as many event times or headers as values")
        _check_times(run.event_times_us)
        total += count
    return total
