"""Cuts single records out of stored pages, and makes pages of records: what dead letters need.

Everything else in the broker carries pages without a look inside. Columns are sliced where they are; only the records
that are wanted become objects. A row becomes a record whose value is one JSON object.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from forebay.broker.core.dead_letters import Cut, PlainRecord
from forebay.broker.core.pages import Body, Encoding, Entry, Incoming
from forebay.broker.core.ranges import Range
from forebay.broker.rpc.counting import NO_KEY, NO_TIME
from forebay.broker.rpc.rows import SchemaOf, json_rows, version_header
from forebay.broker.rpc.run_columns import records_at
from forebay.v1 import record_pb2

GROWTH_MAX: Final = 64
"""Rows that are cut out of a page become at most so many times its bytes as JSON ..."""
GROWTH_BYTES: Final = 64 << 10
"""... and so many bytes more: names of columns and dictionaries grow, a page that was made to grow does not."""


class PageCodec:
    """Cuts pages of both encodings, and makes those with ``Encoding.RECORDS``."""

    def cut(self, entry: Entry, body: Body, wanted: Sequence[Range], schema_of: SchemaOf) -> list[Cut]:
        """See ``RecordCodec``."""
        if entry.encoding == Encoding.ARROW:
            headers = (version_header(body),)
            rows = json_rows(entry, body, wanted, schema_of, bytes_max=GROWTH_MAX * entry.size + GROWTH_BYTES)
            return [
                replace(_cut(entry, row.offset, PlainRecord(row.value, headers=headers)), uncut=row.unreadable)
                for row in rows
            ]
        found = records_at(body.data, entry.base, wanted)
        return [_cut(entry, offset, record) for offset, record, _ in found]

    def page(self, records: Sequence[PlainRecord], partition: int, traceparent: str) -> Incoming:
        """See ``RecordCodec``."""
        run = record_pb2.RecordRun(
            value_lengths=[len(record.value) for record in records], values=b"".join(r.value for r in records)
        )
        if any(record.key is not None for record in records):
            run.key_lengths.extend(NO_KEY if record.key is None else len(record.key) for record in records)
            run.keys = b"".join(record.key or b"" for record in records)
        if any(record.event_time_us is not None for record in records):
            run.event_times_us.extend(
                NO_TIME if record.event_time_us is None else record.event_time_us for record in records
            )
        if any(record.headers for record in records):
            run.headers.extend(
                record_pb2.Headers(entries=[record_pb2.Header(key=key, value=value) for key, value in record.headers])
                for record in records
            )
        body = record_pb2.RecordPage(runs=[run]).SerializeToString()
        return Incoming(partition, Encoding.RECORDS, len(records), zlib.crc32(body), body, traceparent)


def _cut(entry: Entry, offset: int, record: PlainRecord) -> Cut:
    part = bisect_right(entry.parts, offset, key=lambda each: each.first) - 1
    accepted = entry.parts[part].accepted_at_us if part >= 0 else entry.accepted_at_us
    return Cut(offset, accepted, entry.parts[part].traceparent if part >= 0 else "", record)
