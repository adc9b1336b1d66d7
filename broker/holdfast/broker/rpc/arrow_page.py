"""The framing of a page of rows: which schema they have, how many they are, and where their messages stand.

    ArrowPage   08 version   10 rows   1a <length> messages, to the end of the body

The messages are not looked at, and not copied: that rows are what they say is found out by who reads them. Whatever
another writer may legally do differently goes through protobuf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from holdfast.broker.core.pages import Bytes
from holdfast.v1 import record_pb2

_VERSION: Final = 0x08
_ROWS: Final = 0x10
_MESSAGES: Final = 0x1A
_SHIFT_MAX: Final = 28
"""Of a number of 32 bits."""


@dataclass(frozen=True, slots=True)
class ArrowPage:
    """The body of a page with ``Encoding.ARROW``."""

    schema_version: int
    rows: int
    messages: Bytes
    """A view of the body where that has the usual form."""


def read(body: Bytes) -> ArrowPage:
    """Take a body apart; raises ValueError for what is none."""
    page = _usual(memoryview(body)) or _any(body)
    if not page.schema_version:
        raise ValueError("it names no version of a schema")
    if not page.messages:
        raise ValueError("it holds no messages")
    return page


def _usual(body: memoryview) -> ArrowPage | None:
    found: list[int] = []
    at = 0
    for tag in (_VERSION, _ROWS, _MESSAGES):
        if at >= len(body) or body[at] != tag:
            return None
        number = _varint(body, at + 1)
        if number is None:
            return None
        found.append(number[0])
        at = number[1]
    version, rows, length = found
    return ArrowPage(version, rows, body[at:]) if at + length == len(body) else None


def _varint(body: memoryview, at: int) -> tuple[int, int] | None:
    """A number of 32 bits and where it ends."""
    number = shift = 0
    while at < len(body) and shift <= _SHIFT_MAX:
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number, at) if number < 1 << 32 else None
        shift += 7
    return None


def _any(body: Bytes) -> ArrowPage:
    try:
        page = record_pb2.ArrowPage.FromString(bytes(body))
    except DecodeError as error:
        raise ValueError("it cannot be parsed") from error
    return ArrowPage(page.schema_version, page.rows, page.messages)
