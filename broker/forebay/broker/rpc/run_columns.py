"""Single records of a run, sliced out of its columns; only those that are wanted become objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, islice

from forebay.broker.core.dead_letters import PlainRecord
from forebay.broker.core.pages import Bytes
from forebay.broker.core.ranges import Range
from forebay.broker.rpc.counting import NO_KEY, NO_TIME
from forebay.v1 import record_pb2


def records_at(
    data: Bytes, base: int, wanted: Sequence[Range], *, headers_max: int | None = None
) -> Iterator[tuple[int, PlainRecord, int]]:
    """Yield offset and record of what is ``wanted`` (sorted, apart) of a page whose first offset is ``base``.

    The last of the three is the number of headers that were left out because of ``headers_max``.
    """
    for run in record_pb2.RecordPage.FromString(bytes(data)).runs:
        end = base + len(run.value_lengths)
        offsets = (o for part in wanted for o in range(max(part.first, base), min(part.end, end)))
        columns: RunColumns | None = None
        for offset in offsets:
            columns = columns or RunColumns(run)
            yield offset, *columns.at(offset - base, headers_max)
        base = end


class RunColumns:
    """One run, with the places of its values and keys."""

    def __init__(self, run: record_pb2.RecordRun) -> None:
        # Each access of a column of bytes copies it.
        self._run = run
        self._values = run.values
        self._value_at = [0, *accumulate(run.value_lengths)]
        self._keys = run.keys
        self._key_lengths = list(run.key_lengths)
        self._key_at = [0, *accumulate(0 if length == NO_KEY else length for length in self._key_lengths)]

    def at(self, index: int, headers_max: int | None = None) -> tuple[PlainRecord, int]:
        """Return the record at a place of the run, and how many of its headers were left out."""
        run = self._run
        key = None
        if self._key_lengths and self._key_lengths[index] != NO_KEY:
            key = self._keys[self._key_at[index] : self._key_at[index + 1]]
        time = run.event_times_us[index] if run.event_times_us else NO_TIME
        entries = run.headers[index].entries if run.headers else ()
        headers = tuple((header.key, header.value) for header in islice(entries, headers_max))
        record = PlainRecord(
            value=self._values[self._value_at[index] : self._value_at[index + 1]],
            key=key,
            headers=headers,
            event_time_us=None if time == NO_TIME else time,
        )
        return record, len(entries) - len(headers)
