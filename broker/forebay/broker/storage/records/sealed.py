"""Sealed values: a CRC-32 of the rest, the number of the layout, the content.

Values on a hot path are packed structs; sinks, stages and producers are JSON, readable without tools. A value that does
not match raises ``Undecodable``.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, fields
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, cast

from forebay.state.numbers import plural

V = TypeVar("V")
SEAL: Final = struct.Struct(">IB")
LAYOUT: Final = 1
_U64: Final = struct.Struct(">Q")


class Undecodable(ValueError):
    """A stored value fails its checksum or has a layout that this version does not know."""


@dataclass(frozen=True, slots=True)
class Codec(Generic[V]):
    """Encoding of one kind of value, with its seal."""

    encode: Callable[[V], bytes]
    decode: Callable[[bytes], V]
    """Raises ``Undecodable``."""


def seal(content: bytes) -> bytes:
    """Return a content as a stored value."""
    return SEAL.pack(zlib.crc32(content), LAYOUT) + content


def opened(value: bytes) -> bytes:
    """Return the content of a stored value. Raises ``Undecodable``."""
    if len(value) < SEAL.size:
        raise Undecodable(f"{len(value)} {plural(len(value), 'byte is', 'bytes are')} too few")
    crc, version = SEAL.unpack_from(value)
    content = value[SEAL.size :]
    if version != LAYOUT:
        raise Undecodable(f"layout {version} is not known")
    if zlib.crc32(content) != crc:
        raise Undecodable("the checksum does not match")
    return content


def unpack(layout: struct.Struct, content: bytes, at: int = 0) -> tuple[Any, ...]:
    """Return the numbers at a position. Raises ``Undecodable``."""
    try:
        return layout.unpack_from(content, at)
    except struct.error as error:
        raise Undecodable(str(error)) from error


def text_of(content: bytes) -> str:
    """Return a content that is text. Raises ``Undecodable``."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(str(error)) from error


def as_json(value: Any) -> bytes:
    """Return a dataclass as a sealed JSON object."""
    return seal(json.dumps(asdict(value), sort_keys=True).encode())


def flat(kind: type[V], layout: str) -> Codec[V]:
    """Return the codec of a dataclass of numbers: its fields in their order."""
    packed, numbers = struct.Struct(layout), attrgetter(*(field.name for field in fields(cast(Any, kind))))
    return Codec(
        lambda value: seal(packed.pack(*numbers(value))),
        lambda value: kind(*unpack(packed, opened(value))),
    )


def json_record(kind: type[V], name: str, *, added: Collection[str] = ()) -> Codec[V]:
    """Return the codec of a dataclass that is stored as JSON.

    The fields ``added`` later are stored only with another value than zero, so that values of before keep their bytes.
    """

    def encode(value: V) -> bytes:
        found = asdict(cast(Any, value))
        kept = {field: one for field, one in found.items() if one or field not in added}
        return seal(json.dumps(kept, sort_keys=True).encode())

    def decode(value: bytes) -> V:
        try:
            return kind(**json.loads(opened(value)))
        except (ValueError, TypeError) as error:
            raise Undecodable(f"not {name}: {error}") from error

    return Codec(encode, decode)


NUMBER: Final[Codec[int]] = Codec(
    lambda number: seal(_U64.pack(number)),
    lambda value: int(unpack(_U64, opened(value))[0]),
)
TEXT: Final[Codec[str]] = Codec(lambda text: seal(text.encode()), lambda value: text_of(opened(value)))
