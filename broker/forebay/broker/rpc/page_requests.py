"""Requests of a publish stream: the body of a page is cut out of the message, and protobuf reads the rest.

As a field of the message the body would be copied twice, by the parser and for whoever asks for it. Only a request
that has one page with one body is cut; whatever else comes, damage too, is left to protobuf.

    PublishRequest   12 <length> PublishPage, to the end of the message
    PublishPage      ... 32 <length> body ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.broker.core.pages import Bytes
from forebay.v1 import buffer_service_pb2 as pb

SMALL_BYTES: Final = 4_096
"""Up to here protobuf is faster."""
_PAGE: Final = 0x12
_BODY: Final = 0x32
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_SKIPPED: Final = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BYTES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request that holds a page."""

    page: pb.PublishPage
    """All of it but the body."""

    body: Bytes
    """A view of the message where that is large."""


def cut(message: bytes) -> PageRequest | None:
    """Return the page of a message in the usual form; None for a small one and for any other."""
    return _cut(message) if len(message) > SMALL_BYTES else None


def decode(message: bytes) -> PageRequest | pb.PublishRequest:
    """Return any request of a publish stream. Raises ``DecodeError`` for what is none."""
    request = pb.PublishRequest.FromString(message)
    return PageRequest(request.page, request.page.body) if request.WhichOneof("request") == "page" else request


def read(message: bytes) -> PageRequest | pb.PublishRequest:
    """Return any request, its page cut out where that is possible. Raises ``DecodeError`` for what is none."""
    return cut(message) or decode(message)


def _cut(message: bytes) -> PageRequest | None:
    """The page of a message, or None when it is not in the usual form."""
    if message[0] != _PAGE:
        return None
    outer = _varint(message, 1)
    if outer is None or outer[0] + outer[1] != len(message):
        return None
    begun = outer[1]
    body = _field(message, begun, _BODY)
    if body is None or _field(message, body[2], _BODY) is not None:
        return None
    tag, first, end = body
    return PageRequest(pb.PublishPage.FromString(message[begun:tag] + message[end:]), memoryview(message)[first:end])


def _field(message: bytes, at: int, wanted: int) -> tuple[int, int, int] | None:
    """Where a length-delimited field's tag, content and end are; None when it is not there, or before it is damage."""
    while at < len(message):
        tag = message[at]
        kind = tag & 0x07
        if kind in {_VARINT, _DELIMITED}:
            value = _varint(message, at + 1)
            if value is None:
                return None
            number, after = value
            if kind == _DELIMITED:
                if after + number > len(message):
                    return None
                if tag == wanted:
                    return at, after, after + number
                after += number
        elif kind in _SKIPPED:
            after = at + 1 + _SKIPPED[kind]
        else:
            return None
        at = after
    return None


def _varint(message: bytes, at: int) -> tuple[int, int] | None:
    """A number and where it ends; None when it does not."""
    number = 0
    for index, byte in enumerate(message[at : at + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number, at + index + 1
    return None
