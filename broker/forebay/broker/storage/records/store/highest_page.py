"""Highest page number, and the records ever stored. Written with every batch that names pages.

A page in a file with a higher number was never reported as stored: a crash came before its batch.
"""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.storage.records.kind import U64, OfStore
from forebay.broker.storage.records.sealed import Codec, opened, seal, unpack

_LAYOUT: Final = struct.Struct(">QQ")


def _encode(of: tuple[int, int]) -> bytes:
    return seal(_LAYOUT.pack(*of))


def _decode(value: bytes) -> tuple[int, int]:
    content = opened(value)
    if len(content) == U64.size:  # stores of before did not count records
        return int(unpack(U64, content)[0]), 0
    number, records = unpack(_LAYOUT, content)
    return number, records


HIGHEST: Final = OfStore(
    name="highest page number",
    prefix=b"\x03",
    codec=Codec(_encode, _decode),
    lives="the store's life; written with every batch that names pages",
    damaged="taken from the files: pages of a crash may stay in them",
)
