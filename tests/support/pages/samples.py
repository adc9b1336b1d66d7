"""Small values that the broker's tests are made of."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from forebay.broker.core.partition.pages import Encoding, Entry, Incoming, PagePart
from forebay.broker.core.writes import SchemaRecord
from forebay.page.format import Bytes
from forebay.v1 import record_pb2


def entry(base: int, count: int = 1, *, number: int | None = None, size: int | None = None, age_us: int = 0) -> Entry:
    """An entry of ``count`` records; ``size`` is ten bytes a record, the number its base, unless given."""
    return Entry(
        base=base,
        count=count,
        number=base if number is None else number,
        bulk=False,
        size=10 * count if size is None else size,
        encoding=Encoding.RECORDS,
        accepted_at_us=age_us,
        age_us=age_us,
        bytes_before=0,
        pages_before=0,
        parts=(PagePart(base, age_us),),
    )


def body(values: Sequence[bytes]) -> bytes:
    """Values as the body of a page."""
    run = record_pb2.RecordRun(value_lengths=[len(value) for value in values], values=b"".join(values))
    return record_pb2.RecordPage(runs=[run]).SerializeToString()


def page(*values: bytes, partition: int = 0, traceparent: str = "") -> Incoming:
    """Values as a page that a client publishes."""
    data = body(values)
    return Incoming(partition, Encoding.RECORDS, len(values), zlib.crc32(data), data, traceparent)


def no_schema(version: int) -> SchemaRecord:
    """Finds no schema: for pages that have none."""
    raise AssertionError(f"nobody has registered version {version}")


def values(data: Bytes) -> list[bytes]:
    """The values in the body of a page."""
    found: list[bytes] = []
    for run in record_pb2.RecordPage.FromString(bytes(data)).runs:
        at = 0
        for length in run.value_lengths:
            found.append(run.values[at : at + length])
            at += length
    return found
