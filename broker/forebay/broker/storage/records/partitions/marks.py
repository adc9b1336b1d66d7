"""Marks of settled offsets with their times, while acked pages are retained."""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.partition.retention import Mark, Marks
from forebay.broker.core.writes import PutMarks
from forebay.broker.storage.records.kind import Kind, Replaced
from forebay.broker.storage.records.sealed import Codec, opened, seal, unpack

_COUNT: Final = struct.Struct(">H")
_MARK: Final = struct.Struct(">Qq")


def _encode(marks: Marks) -> bytes:
    return seal(_COUNT.pack(len(marks)) + b"".join(_MARK.pack(mark.until, mark.at_us) for mark in marks))


def _decode(value: bytes) -> Marks:
    content = opened(value)
    [count] = unpack(_COUNT, content)
    return tuple(Mark(*unpack(_MARK, content, _COUNT.size + index * _MARK.size)) for index in range(count))


def _replaced(sink: int, partition: int) -> Replaced:
    return Replaced("acked records are retained from now on only", (), PutMarks(sink, partition, ()))


MARKS: Final = Kind(
    name="marks",
    prefix=b"\x20",
    layout="sink u32, partition u32",
    codec=Codec(_encode, _decode),
    lives="while acked pages are retained",
    damaged="deleted: acked records are retained from now on only",
    into=lambda sink: sink.marks,
    replaced=_replaced,
    puts=PutMarks,
    empty_is_deleted=True,
)
