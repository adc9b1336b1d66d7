"""Count of a request's elements from its bytes, without decoding; it ends at an exceeded bound.

It accepts everything that protobuf accepts, and rejects what it cannot parse: an incorrect count would bound nothing.
Groups are rejected too; no message of this version has any.
"""

from __future__ import annotations

from typing import Final

from forebay.broker.core.errors import InvalidRequest, RequestTooLarge
from forebay.broker.rpc.requests.bounds import Bounds
from forebay.broker.rpc.requests.shapes import CountedField, Shape

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_SHIFT_MAX: Final = 63


def check(message: bytes, shape: Shape, bounds: Bounds) -> None:
    """Raise ``RequestTooLarge`` for a request over its bounds, ``InvalidRequest`` for a damaged one."""
    if len(message) > bounds.bytes_max:
        raise RequestTooLarge("bytes", len(message), bounds.bytes_max)
    if shape.places and len(message) > bounds.harmless_bytes:
        _Scan(message, bounds).walk(0, len(message), shape)


class _Scan:
    """Count of one request."""

    def __init__(self, message: bytes, bounds: Bounds) -> None:
        self._message = message
        self._bounds = bounds
        self._left = bounds.elements_max
        self._left_of = dict(bounds.counts)
        # Too short to hold too many elements: only those with a bound of their own are counted.
        self._deep = len(message) > 2 * bounds.elements_max or any("." in path for path in bounds.counts)

    def walk(self, at: int, end: int, shape: Shape) -> None:
        """Count the elements in ``[at, end)``."""
        message, places = self._message, shape.places
        while at < end:
            tag = message[at]
            at += 1
            if tag >= 0x80:
                tag, at = self._varint(at - 1, end)
            kind = tag & 0x07
            if kind == _DELIMITED:
                if at >= end:
                    raise _damaged()
                length = message[at]
                at += 1
                if length >= 0x80:
                    length, at = self._varint(at - 1, end)
                after = at + length
                if after > end:
                    raise _damaged()
                place = places.get(tag >> 3)
                if place is not None:
                    self._count(place, length // place.packed_bytes if place.packed_bytes else 1)
                    if place.inside is not None and self._deep:
                        self.walk(at, after, place.inside)
                at = after
                continue
            if kind == _VARINT:
                _, at = self._varint(at, end)
            elif kind == _FIXED32:
                at += 4
            elif kind == _FIXED64:
                at += 8
            else:
                raise _damaged()
            place = places.get(tag >> 3)
            if place is not None:
                self._count(place, 1)
        if at > end:
            raise _damaged()

    def _count(self, place: CountedField, count: int) -> None:
        self._left -= count
        if self._left < 0:
            bound = self._bounds.elements_max
            raise RequestTooLarge("or more messages and repeated values", bound - self._left, bound, field=place.path)
        if place.path in self._left_of:
            left = self._left_of[place.path] = self._left_of[place.path] - count
            if left < 0:
                bound = self._bounds.counts[place.path]
                raise RequestTooLarge(f"or more {place.path}", bound - left, bound, field=place.path)

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        number = shift = 0
        while at < end and shift <= _SHIFT_MAX:
            byte = self._message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number, at
            shift += 7
        raise _damaged()


def _damaged() -> InvalidRequest:
    return InvalidRequest("the request is not a message of its type: it is truncated or damaged")
