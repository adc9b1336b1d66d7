"""Variable-length integers of protobuf's wire format, and the extents that they delimit."""

from __future__ import annotations

from typing import Final

from forebay.page.format import Bytes

VARINT: Final = 0
FIXED64: Final = 1
DELIMITED: Final = 2
FIXED32: Final = 5
"""Wire types: the lowest three bits of a tag."""

LENGTH_BYTES_MAX: Final = 5
"""Bytes of a length: protobuf refuses longer ones, although it takes longer integers."""

_SHIFT_MAX: Final = 63


def encoded(number: int) -> bytes:
    """Return the encoding of a non-negative integer."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def number_at(data: Bytes, at: int) -> tuple[int, int] | None:
    """Return the integer at ``at`` and the position after it.

    None where the integer is cut off or longer than ten bytes.
    """
    number = shift = 0
    size = len(data)
    while at < size and shift <= _SHIFT_MAX:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    return None


def extent_at(data: Bytes, at: int) -> tuple[int, int] | None:
    """Return ``[first, end)`` of the content whose length is at ``at``; None where it is cut off."""
    found = length_at(data, at)
    if found is None:
        return None
    length, first = found
    end = first + length
    return (first, end) if end <= len(data) else None


def length_at(data: Bytes, at: int) -> tuple[int, int] | None:
    """Return the length at ``at`` and the position after it; None where it is cut off or too long."""
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    found = number_at(data, at)
    return found if found is not None and found[1] - at <= LENGTH_BYTES_MAX else None
