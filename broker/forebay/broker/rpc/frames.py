"""Responses that carry pages, put together as bytes.

A body is copied once on its way out. As a field of a message it would be copied by each message that is put around it,
and once more when all is serialised: together more than reading it from the store takes. The result is what protobuf
makes of the same messages; where fields stand in another order, that means nothing on the wire.

    DeliverResponse  12 <length> Delivery        ReplayResponse  12 <length> ReplayPages
    Delivery         22 <length> StoredPage ...  ReplayPages     0a <length> StoredPage ...
    StoredPage       2a <length> body
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from forebay.broker.core.pages import Body, Bytes, Entry
from forebay.broker.rpc import convert
from forebay.v1 import buffer_service_pb2 as pb

_BODY: Final = b"\x2a"
_PAGES_OF_DELIVERY: Final = b"\x22"
_PAGES_OF_REPLAY: Final = b"\x0a"
_WHOLE: Final = b"\x12"


def serialized(response: Any) -> bytes:
    """The wire form of a response: what was put together here is in it already."""
    return response if isinstance(response, bytes) else bytes(response.SerializeToString())


def delivery(rest: pb.Delivery, pages: Iterable[tuple[Entry, Body]]) -> bytes:
    """A ``DeliverResponse`` with a delivery that has ``rest`` and these pages."""
    return _framed([rest.SerializeToString(), *_pages(_PAGES_OF_DELIVERY, pages)])


def replay_pages(pages: Iterable[tuple[Entry, Body]]) -> bytes:
    """A ``ReplayResponse`` with these pages."""
    return _framed(_pages(_PAGES_OF_REPLAY, pages))


def _framed(chunks: list[Bytes]) -> bytes:
    return b"".join([_WHOLE, _varint(sum(map(len, chunks))), *chunks])


def _pages(tag: bytes, pages: Iterable[tuple[Entry, Body]]) -> list[Bytes]:
    chunks: list[Bytes] = []
    for entry, body in pages:
        head = convert.page_head(entry, body).SerializeToString() + _BODY + _varint(len(body.data))
        chunks += [tag, _varint(len(head) + len(body.data)), head, body.data]
    return chunks


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
