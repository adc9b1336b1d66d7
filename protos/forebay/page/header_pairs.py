"""Names and values of the headers of records, decoded a column at a time.

A *layout* is everything of a message of headers but the values: the tags, the lengths and the names. The records of a
sink have few layouts, so a message is compared with a known layout and divided in C. Every other message is read by its
tags, and one that is not in the usual form by protobuf, with the same result.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError

from forebay.page.format import HEADERS_MAX, HEADERS_TAG, Bytes, MalformedPage
from forebay.page.varint import extent_at
from forebay.v1 import record_pb2

Headers: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names and values in the order of publishing; a name may occur twice."""

_FIRST: Final = 0x0A
"""Tag of a header in its message, and of the name in a header."""
_VALUE: Final = 0x12
_LAYOUTS_MAX: Final = 256
_HEADS_BYTES_MAX: Final = 512
"""Most bytes around the values of a record that are compared with those of the other records."""
_MESSAGE_BYTES_MAX: Final = 64 << 10
"""Largest message whose layout is kept."""


class _Layout:
    """Names of the headers, and the bytes around the values."""

    __slots__ = ("_heads", "_names", "_size", "_struct")

    def __init__(self, message: bytes, names: Sequence[str], values: Sequence[tuple[int, int]]) -> None:
        """``values``: the extent ``[first, end)`` of each value in the message."""
        at, heads, parts = 0, [], []
        for first, end in values:
            heads.append(message[at:first])
            parts.append(f"{first - at}s{end - first}s")
            at = end
        self._names = tuple(names)
        self._heads = tuple(heads)
        self._struct = struct.Struct("".join(parts))
        self._size = len(message)

    def pairs(self, message: Bytes) -> Headers | None:
        """Return the headers of a message as long as that of the layout; None for one of another layout."""
        parts = self._struct.unpack(message)
        return tuple(zip(self._names, parts[1::2], strict=True)) if parts[::2] == self._heads else None

    def all_pairs(self, messages: Sequence[Bytes]) -> list[Headers] | None:
        """Return the headers of each message; None unless all have this layout."""
        sizes = list(map(len, messages))
        if sizes.count(self._size) != len(sizes):
            return None
        columns = list(zip(*self._struct.iter_unpack(b"".join(messages)), strict=True))
        for head, column in zip(self._heads, columns[::2], strict=True):
            if column.count(head) != len(column):
                return None
        named = [
            zip(repeat(name), column, strict=False) for name, column in zip(self._names, columns[1::2], strict=True)
        ]
        return list(zip(*named, strict=True))


def pairs_of(messages: Sequence[Bytes]) -> list[Headers]:
    """Return the headers of each record, of messages of headers. Raises ``MalformedPage``."""
    layouts: dict[int, _Layout] = {}
    found: list[Headers] = []
    for number, message in enumerate(messages):
        size = len(message)
        layout = layouts.get(size)
        pairs = layout.pairs(message) if layout is not None else None
        if pairs is None and size:
            pairs, layout = _read(bytes(message))
            if layout is not None and size <= _MESSAGE_BYTES_MAX:
                if not number and (every := layout.all_pairs(messages)) is not None:
                    return every
                if len(layouts) >= _LAYOUTS_MAX:
                    layouts.clear()
                layouts[size] = layout
        found.append(pairs or ())
    return found


def count_alike(fields: bytes) -> int | None:
    """Return the number of records in header fields that are valid and have one layout.

    ``fields`` are those of a run, one per record. None says nothing about them. What surrounds the
    values is compared a byte of all records at a time.
    """
    extent = extent_at(fields, 1) if fields[:1] == bytes((HEADERS_TAG,)) else None
    if extent is None or len(fields) % extent[1]:
        return None
    first, step = extent
    usual = _usual(fields[first:step])
    if usual is None or len(usual[0]) > HEADERS_MAX:
        return None
    count, at = len(fields) // step, 0
    heads: list[range] = []
    for start, end in usual[1]:
        heads.append(range(at, first + start))
        at = first + end
    heads.append(range(at, step))
    if sum(map(len, heads)) > _HEADS_BYTES_MAX:
        return None
    for place in chain.from_iterable(heads):
        if fields[place::step] != fields[place : place + 1] * count:
            return None
    return count


def entries_of(message: Bytes) -> Sequence[record_pb2.Header]:
    """Return the headers of one record as protobuf reads them. Raises ``MalformedPage``."""
    if not message:
        return ()
    try:
        return record_pb2.Headers.FromString(bytes(message)).entries
    except DecodeError as error:
        raise MalformedPage("the headers of a record cannot be parsed") from error


def _read(message: bytes) -> tuple[Headers, _Layout | None]:
    """Return the headers of a message, and its layout if it has the usual form."""
    usual = _usual(message)
    if usual is None:
        return tuple((header.key, header.value) for header in entries_of(message)), None
    names, values = usual
    pairs = tuple((name, message[first:end]) for name, (first, end) in zip(names, values, strict=True))
    return pairs, _Layout(message, names, values)


def _usual(message: bytes) -> tuple[list[str], list[tuple[int, int]]] | None:
    """Return the names and the extents of the values; None where the message is not in the usual form.

    In that form a header is its name, followed by its value or by nothing.
    """
    names: list[str] = []
    values: list[tuple[int, int]] = []
    at, size = 0, len(message)
    while at < size:
        header = extent_at(message, at + 1) if message[at] == _FIRST else None
        if header is None:
            return None
        first, at = header
        name = extent_at(message, first + 1) if first < at and message[first] == _FIRST else None
        if name is None or name[1] > at:
            return None
        value: tuple[int, int] | None = (at, at)
        if name[1] < at:
            value = extent_at(message, name[1] + 1) if message[name[1]] == _VALUE else None
        if value is None or value[1] != at:
            return None
        try:
            names.append(message[name[0] : name[1]].decode())
        except UnicodeDecodeError:
            return None
        values.append(value)
    return names, values
