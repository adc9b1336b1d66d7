"""Codec of single records within pages, for dead letters.

The rest of the broker handles pages without decoding them. Columns are sliced in place; only the wanted records become
objects. A row becomes a record whose value is one JSON object.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from forebay.broker.core.dead_letters.letters import Cut, PlainRecord
from forebay.broker.core.partition.pages import Body, Encoding, Entry, Incoming
from forebay.broker.core.partition.ranges import Range
from forebay.broker.rpc.pages.plain_records import records_at
from forebay.broker.rpc.pages.rows import SchemaOf, json_rows, version_header
from forebay.page.encoding import encode_columns

GROWTH_MAX: Final = 64
"""Bound of the JSON of rows that are cut out of a page: this many times its bytes ..."""
GROWTH_BYTES: Final = 64 << 10
"""... plus this many bytes, for names of columns and dictionaries."""


class PageCodec:
    """``RecordCodec`` that cuts pages of both encodings, and builds those with ``Encoding.RECORDS``."""

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
        keys, times = [one.key for one in records], [one.event_time_us for one in records]
        body = encode_columns([one.value for one in records], keys, times, [one.headers for one in records])
        return Incoming(partition, Encoding.RECORDS, len(records), zlib.crc32(body), body, traceparent)


def _cut(entry: Entry, offset: int, record: PlainRecord) -> Cut:
    part = entry.part_of(offset)
    return Cut(offset, part.accepted_at_us, part.traceparent, record)
