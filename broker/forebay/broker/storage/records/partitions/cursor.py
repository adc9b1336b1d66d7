"""Cursor of a subscription on a partition. Written with every batch that settles records of it."""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.writes import PutCursor
from forebay.broker.storage.records.kind import OfSubscription
from forebay.broker.storage.records.sealed import Codec, opened, seal, unpack

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
        cursor.told,
        cursor.sent,
        len(cursor.beyond),
        len(cursor.attempts),
    )
    ranges = b"".join(_RANGE.pack(first, end) for first, end in cursor.beyond)
    return seal(fixed + ranges + b"".join(_ATTEMPTS.pack(offset, tries) for offset, tries in cursor.attempts))


def _decode(value: bytes) -> Cursor:
    content = opened(value)
    start, watermark, acked, dead, dropped, skipped, told, sent, ranges, tries = unpack(_LAYOUT, content)
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
        told=told,
        sent=sent,
    )


CURSOR: Final = OfSubscription(
    name="cursor",
    prefix=b"\x13",
    codec=Codec(_encode, _decode),
    lives="the subscription's life",
    damaged="begins at the earliest record that is stored: everything is redelivered, nothing is skipped",
    surveyed=True,
    into=lambda sink: sink.cursors,
    puts=PutCursor,
)
