"""Messages that carry pages, written and read without a copy of the body.

As a field of a message a body is copied by each message that is put around it, and once more by the serializer; when it
is read, by the parser and by each access. Here it is copied once on its way out, and not at all on its way in:

    PublishRequest    12 <length> PublishPage
    PublishPage       08 partition  10 sequence  18 encoding  20 record_count  2d crc32  32 body  3a traceparent
    DeliverResponse   12 <length> Delivery          ReplayResponse   12 <length> ReplayPages
    Delivery          22 <length> StoredPage ...    ReplayPages      0a <length> StoredPage ...
    StoredPage        2a <length> body

What is written equals what protobuf writes of the same messages, but for the order of fields, which has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from forebay.page.format import SMALL_BYTES, Bytes
from forebay.page.varint import DELIMITED, FIXED32, FIXED64, VARINT, encoded, length_at, number_at

_BODY_OF_STORED: Final = b"\x2a"
_PAGES_OF_DELIVERY: Final = b"\x22"
_PAGES_OF_REPLAY: Final = b"\x0a"
_CONTENT: Final = b"\x12"
_PUBLISH_PAGE: Final = 0x12
_BODY_OF_PUBLISHED: Final = 0x32
_TAG_MAX: Final = 0x7F
"""Greatest tag of one byte.

All fields of these messages have one; a longer tag may be another spelling of theirs.
"""

_FIXED_BYTES: Final = {FIXED64: 8, FIXED32: 4}

StoredPage = tuple[bytes, Bytes]
"""A serialized ``StoredPage`` without its body, and the body."""


def publish_request(
    partition: int, sequence: int, *, encoding: int, record_count: int, crc32: int, body: bytes, traceparent: str
) -> bytes:
    """Return a serialized ``PublishRequest`` with one page."""
    trace = traceparent.encode("ascii")
    head = b"".join(
        (
            _number(b"\x08", partition),
            _number(b"\x10", sequence),
            _number(b"\x18", encoding),
            _number(b"\x20", record_count),
            b"\x2d" + crc32.to_bytes(4, "little") if crc32 else b"",
            b"\x32" + encoded(len(body)) if body else b"",
        )
    )
    tail = b"\x3a" + encoded(len(trace)) + trace if trace else b""
    size = len(head) + len(body) + len(tail)
    return b"".join((b"\x12", encoded(size), head, body, tail))


def split_publish_request(message: bytes) -> tuple[bytes, memoryview] | None:
    """Return a serialized ``PublishPage`` without its body, and the body as a view of the message.

    None for a small message, and for one that is not a request with one page and one body: protobuf decides about it.
    """
    if len(message) <= SMALL_BYTES or message[0] != _PUBLISH_PAGE:
        return None
    outer = length_at(message, 1)
    if outer is None or outer[0] + outer[1] != len(message):
        return None
    begun = outer[1]
    bodies = _fields(message, begun, _BODY_OF_PUBLISHED)
    if bodies is None or len(bodies) != 1:
        return None
    [(tag, first, end)] = bodies
    return message[begun:tag] + message[end:], memoryview(message)[first:end]


def deliver_response(rest: bytes, pages: Iterable[StoredPage]) -> bytes:
    """Return a serialized ``DeliverResponse``; ``rest`` is a serialized ``Delivery`` without its pages."""
    return _response([rest, *_chunks(_PAGES_OF_DELIVERY, pages)])


def replay_response(pages: Iterable[StoredPage]) -> bytes:
    """Return a serialized ``ReplayResponse`` with these pages."""
    return _response(_chunks(_PAGES_OF_REPLAY, pages))


def _response(chunks: list[Bytes]) -> bytes:
    return b"".join([_CONTENT, encoded(sum(map(len, chunks))), *chunks])


def _chunks(tag: bytes, pages: Iterable[StoredPage]) -> list[Bytes]:
    chunks: list[Bytes] = []
    for rest, body in pages:
        head = rest + _BODY_OF_STORED + encoded(len(body))
        chunks += [tag, encoded(len(head) + len(body)), head, body]
    return chunks


def _number(tag: bytes, number: int) -> bytes:
    return tag + encoded(number) if number else b""


def _fields(message: bytes, at: int, wanted: int) -> list[tuple[int, int, int]] | None:
    """Return the positions of tag, content and end of each length-delimited field with the tag ``wanted``.

    None where the message is damaged or has a tag of several bytes.
    """
    fields = []
    while at < len(message):
        tag = message[at]
        kind = tag & 0x07
        if tag > _TAG_MAX:
            return None
        if kind in (VARINT, DELIMITED):
            found = number_at(message, at + 1) if kind == VARINT else length_at(message, at + 1)
            if found is None:
                return None
            number, after = found
            if kind == DELIMITED:
                if tag == wanted:
                    fields.append((at, after, after + number))
                after += number
        elif kind in _FIXED_BYTES:
            after = at + 1 + _FIXED_BYTES[kind]
        else:
            return None
        at = after
    return fields if at == len(message) else None
