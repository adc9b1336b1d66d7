"""Saved position of a named consumer: an opaque document.

It outlives its sink, so that its consumer detects a recreated sink. A damaged one stays and is reported to its
consumer, which cannot know its position: an operator deletes it.
"""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.writes import DropPosition, PutPosition
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import Codec, Undecodable, opened, seal, unpack
from forebay.state.numbers import plural

_LENGTH: Final = struct.Struct(">I")


def _encode(document: bytes) -> bytes:
    return seal(_LENGTH.pack(len(document)) + document)


def _decode(value: bytes) -> bytes:
    content = opened(value)
    [length] = unpack(_LENGTH, content)
    document = content[_LENGTH.size :]
    if len(document) != length:
        raise Undecodable(f"a document has {len(document)} {plural(len(document), 'byte')} instead of {length}")
    return document


POSITION: Final = Kind(
    name="saved position",
    prefix=b"\x08",
    layout="key text",
    codec=Codec(_encode, _decode),
    lives="until its consumer or an operator deletes it",
    damaged="it stays, and reading it is an error until it is deleted",
    puts=PutPosition,
    drops=DropPosition,
)
