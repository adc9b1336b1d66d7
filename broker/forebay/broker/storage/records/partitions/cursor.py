"""Cursor of a subscription on a partition, and the totals of its closed accounts.

The cursor is written with every batch that settles records of it, the totals with the cursor of the next account.
"""

from __future__ import annotations

import struct
from operator import itemgetter
from typing import Final

from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.writes import PutCursor, PutTotals
from forebay.broker.storage.records.kind import Kind, Replaced
from forebay.broker.storage.records.sealed import Codec, flat, opened, seal, unpack

_LAYOUT: Final = struct.Struct(">QQQQQQQQII")
_RANGE: Final = struct.Struct(">QQ")
_ATTEMPTS: Final = struct.Struct(">QI")


def _encode(cursor: Cursor) -> bytes:
    fixed = _LAYOUT.pack(
        cursor.start,
        cursor.watermark,
        cursor.acked,
        cursor.dead_lettered,
        cursor.dropped,
        cursor.skipped,
        cursor.notified,
        cursor.sent,
        len(cursor.beyond),
        len(cursor.attempts),
    )
    ranges = b"".join(_RANGE.pack(first, end) for first, end in cursor.beyond)
    return seal(fixed + ranges + b"".join(_ATTEMPTS.pack(offset, tries) for offset, tries in cursor.attempts))


def _decode(value: bytes) -> Cursor:
    content = opened(value)
    start, watermark, acked, dead, dropped, skipped, notified, sent, ranges, tries = unpack(_LAYOUT, content)
    at = _LAYOUT.size
    beyond = tuple(Range(*unpack(_RANGE, content, at + index * _RANGE.size)) for index in range(ranges))
    at += ranges * _RANGE.size
    attempts = [unpack(_ATTEMPTS, content, at + index * _ATTEMPTS.size) for index in range(tries)]
    return Cursor(
        start=start,
        watermark=watermark,
        beyond=beyond,
        acked=acked,
        dead_lettered=dead,
        dropped=dropped,
        skipped=skipped,
        attempts=tuple((offset, count) for offset, count in attempts),
        notified=notified,
        sent=sent,
    )


CURSOR: Final = Kind(
    name="cursor",
    prefix=b"\x13",
    layout="sink u32, partition u32, subscription text",
    codec=Codec(_encode, _decode),
    lives="the subscription's life",
    damaged="begins at the earliest stored record: everything is redelivered, nothing is skipped",
    surveyed=True,
    into=lambda sink: sink.cursors,
    index=itemgetter(2, 1),
    puts=PutCursor,
)


def _replaced_totals(sink: int, partition: int, subscription: str) -> Replaced:
    write = PutTotals(sink, subscription, partition, Totals())
    return Replaced(f"the totals of `{subscription}` begin at zero", write.totals, write)


TOTALS: Final = Kind(
    name="totals",
    prefix=b"\x1b",
    layout="sink u32, partition u32, subscription text",
    codec=flat(Totals, ">QQQQQ"),
    lives="the subscription's life",
    damaged="begin at zero",
    into=lambda sink: sink.totals,
    index=itemgetter(2, 1),
    replaced=_replaced_totals,
    puts=PutTotals,
)
