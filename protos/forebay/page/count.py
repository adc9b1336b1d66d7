"""Count of a page's records, with every check that a published page has to pass.

A large body in the usual form is counted from its columns: nothing is copied, only numbers are read. Every other one is
counted by protobuf, with the same result.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Final

from google.protobuf.message import DecodeError

from forebay.page import numbers
from forebay.page.format import (
    NO_KEY,
    NO_TIME,
    PAGE_BYTES_MAX,
    PAGE_FRAMING_BYTES,
    RUNS_MAX,
    SMALL_BYTES,
    TIMES_US,
    Bytes,
    MalformedPage,
)
from forebay.page.header_pairs import count_alike
from forebay.page.headers import check_header_counts
from forebay.page.runs import Run, usual_runs
from forebay.v1 import record_pb2

_VALUES: Final = "the lengths of the values do not add up"
_KEY_COUNT: Final = "there are not as many keys as values"
_KEYS: Final = "the lengths of the keys do not add up"
_COLUMNS: Final = "there are not as many event times or headers as values"


def count_records(body: Bytes, *, check_size: Callable[[bytes], None] = lambda body: None) -> int:
    """Return the number of records in a body with ``RECORDS``.

    ``check_size`` is called before protobuf decodes a large body, and raises where that would take too much memory.
    Raises ``MalformedPage`` where the columns contradict each other.
    """
    runs = None if len(body) < SMALL_BYTES else usual_runs(body, runs_max=RUNS_MAX, headers=False)
    header_counts = None if runs is None else _header_counts(body, runs)
    if runs is None or header_counts is None:
        return _general_count(bytes(body), check_size)
    total = 0
    for run, header_count in zip(runs, header_counts, strict=True):
        lengths, _ = checked_lengths(run, header_count)
        check_times(numbers.read(run.event_times_us, "q"))
        total += len(lengths)
    return total


def _header_counts(body: Bytes, runs: Sequence[Run]) -> list[int] | None:
    """Return the number of headers of each run, None where protobuf has to read them.

    That is for headers of several layouts, and for those of a large record.
    """
    counts: list[int] = []
    for run in runs:
        count: int | None = 0
        if run.header_fields:
            small = len(body) <= PAGE_BYTES_MAX + PAGE_FRAMING_BYTES
            count = count_alike(bytes(run.header_fields)) if small else None
        if count is None:
            return None
        counts.append(count)
    return counts


def checked_lengths(run: Run, header_count: int | None = None) -> tuple[array[int], array[int]]:
    """Return the lengths of values and keys. Raises ``MalformedPage`` where columns contradict each other.

    ``header_count``: the number of records with headers, where the run holds them together.
    """
    if run.value_lengths.nbytes % 4 or run.key_lengths.nbytes % 4:
        raise MalformedPage(_VALUES)
    lengths = numbers.read(run.value_lengths, "I")
    count = len(lengths)
    if numbers.total_of(lengths) != run.values.nbytes:
        raise MalformedPage(_VALUES)
    key_lengths = numbers.read(run.key_lengths, "I")
    if key_lengths:
        if len(key_lengths) != count:
            raise MalformedPage(_KEY_COUNT)
        if sum(key_lengths) - NO_KEY * key_lengths.count(NO_KEY) != run.keys.nbytes:
            raise MalformedPage(_KEYS)
    header_count = len(run.headers) if header_count is None else header_count
    if run.event_times_us.nbytes not in (0, 8 * count) or header_count not in (0, count):
        raise MalformedPage(_COLUMNS)
    return lengths, key_lengths


def check_times(times: Sequence[int]) -> None:
    """Raise ``MalformedPage`` for an event time outside of the years 1 to 9999.

    A common cause is a time in nanoseconds instead of microseconds.
    """
    if not times:
        return
    first, last = TIMES_US
    lowest = min(times)
    if lowest == NO_TIME:
        lowest = min((time for time in times if time != NO_TIME), default=first)
    if lowest < first or max(times) > last:
        raise MalformedPage("an event time is outside of the years 1 to 9999")


def _general_count(body: bytes, check_size: Callable[[bytes], None]) -> int:
    if len(body) > SMALL_BYTES:
        check_size(body)
    try:
        page = record_pb2.RecordPage.FromString(body)
    except DecodeError as error:
        raise MalformedPage("it cannot be parsed") from error
    check_header_counts(body, page)
    return sum(map(_general_run, page.runs))


def _general_run(run: record_pb2.RecordRun) -> int:
    count = len(run.value_lengths)
    if sum(run.value_lengths) != len(run.values):
        raise MalformedPage(_VALUES)
    if run.key_lengths:
        if len(run.key_lengths) != count:
            raise MalformedPage(_KEY_COUNT)
        key_lengths = run.key_lengths[:]
        if sum(key_lengths) - NO_KEY * key_lengths.count(NO_KEY) != len(run.keys):
            raise MalformedPage(_KEYS)
    if len(run.event_times_us) not in (0, count) or len(run.headers) not in (0, count):
        raise MalformedPage(_COLUMNS)
    check_times(run.event_times_us[:])
    return count
