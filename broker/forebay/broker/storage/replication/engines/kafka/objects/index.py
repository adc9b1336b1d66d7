"""Index of a topic: the table of its objects at an offset, from which a reader takes the messages.

An index is an object of the topic like others, which versions before it only carry. Its content is

    magic 4 bytes "FBX1"
    crc32 4 bytes of the rest
    zlib          of the columns: of each its length in 8 bytes, and its bytes

Numbers are big-endian, those of columns little-endian. A reader looks for the newest index from the end of the topic
backwards, and takes the messages from there on. What was still needed of the messages that were cut since was carried,
before or after the index.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from forebay.broker.storage.replication.engines.kafka.objects.log import LogMessage
from forebay.broker.storage.replication.engines.kafka.objects.message import MessageKind, MessageUnknown, decode
from forebay.broker.storage.replication.engines.kafka.objects.table import (
    Incomplete,
    Objects,
    StoredObject,
    TableState,
)

INDEX: Final = "index/1"
"""Name of the object; that of another content, or of other effects of messages, is another one."""
INDEX_BYTES: Final = 256 << 20
"""Messages after an index from which another one is due, in bytes."""
INDEX_SHARE: Final = 16
"""Another one is due only after this many times its own bytes, too."""
MAGIC: Final = b"FBX1"
_LENGTH: Final = struct.Struct(">Q")
_CRC: Final = struct.Struct(">I")
LEVEL: Final = 1
SEPARATOR: Final = "\n"
"""Between names, which have none."""
MESSAGES: Final = 16
"""Messages that are searched first."""
STEP: Final = 8
"""Factor by which each next search is longer."""
SEARCHED_BYTES: Final = 2 << 30
"""Bytes without an index after which the topic is read from its beginning."""


class IndexDamaged(ValueError):
    """Bytes that are no index."""


def encode_index(state: TableState) -> bytes:
    """Return a state as bytes."""
    content = zlib.compress(b"".join(_framed(_columns(state))), LEVEL)
    return MAGIC + _CRC.pack(zlib.crc32(content)) + content


def decode_index(data: bytes) -> TableState:
    """Return the state in bytes. Raises ``IndexDamaged``."""
    begin = len(MAGIC) + _CRC.size
    if not data.startswith(MAGIC) or len(data) < begin:
        raise IndexDamaged(f"its {len(data)} bytes do not begin as an index")
    [crc] = _CRC.unpack_from(data, len(MAGIC))
    content = memoryview(data)[begin:]
    if zlib.crc32(content) != crc:
        raise IndexDamaged("its checksum is wrong")
    try:
        columns = _columns_of(zlib.decompress(content))
        state = _state(columns)
        if next(columns, None) is not None:
            raise ValueError("there are more than are known")
    except (ValueError, IndexError, StopIteration, RuntimeError, struct.error, zlib.error) as error:
        raise IndexDamaged(f"its columns do not fit: {error!r}") from error
    return state


def _columns(state: TableState) -> Iterator[bytes]:
    objects, incomplete = state.objects, state.incomplete
    yield _numbers([state.begin, state.base, state.last[0]])
    yield state.last[1]
    yield _little(state.sizes)
    yield _names(each.name for each in objects)
    yield _numbers(each.origin for each in objects)
    yield _numbers(each.size for each in objects)
    yield from _lists([each.offsets for each in objects])
    yield from _texts([each.begin for each in objects])
    yield _names(state.changed)
    yield _numbers(state.changed.values())
    yield _numbers(state.carries)
    yield _numbers(state.carries.values())
    yield _numbers(writer for writer, _ in incomplete)
    yield _numbers(number for _, number in incomplete)
    yield _numbers(one.parts for one in incomplete.values())
    yield _numbers(one.size for one in incomplete.values())
    yield from _texts([one.begin for one in incomplete.values()])
    yield from _lists([tuple(one.offsets) for one in incomplete.values()])
    yield from _lists([tuple(one.offsets.values()) for one in incomplete.values()])
    yield from _lists([tuple(one.names) for one in incomplete.values()])
    yield from _texts([names for one in incomplete.values() for names in one.names.values()])


def _state(columns: Iterator[memoryview]) -> TableState:
    begin, base, last = _numbers_of(next(columns))
    key = bytes(next(columns))
    sizes = _array_of("I", next(columns))
    objects = [
        StoredObject(name, origin, offsets, size, start)
        for name, origin, size, offsets, start in zip(
            _names_of(next(columns)),
            _numbers_of(next(columns)),
            _numbers_of(next(columns)),
            _lists_of(columns),
            _texts_of(columns),
            strict=True,
        )
    ]
    changed = dict(zip(_names_of(next(columns)), _numbers_of(next(columns)), strict=True))
    carries = dict(zip(_numbers_of(next(columns)), _numbers_of(next(columns)), strict=True))
    keys = list(zip(_numbers_of(next(columns)), _numbers_of(next(columns)), strict=True))
    counts, lengths = _numbers_of(next(columns)), _numbers_of(next(columns))
    starts = _texts_of(columns)
    parts, places, named = _lists_of(columns), _lists_of(columns), _lists_of(columns)
    lists = iter(_texts_of(columns))
    incomplete = {
        key: Incomplete(
            dict(zip(parts[at], places[at], strict=True)),
            counts[at],
            lengths[at],
            starts[at],
            {part: next(lists) for part in named[at]},
        )
        for at, key in enumerate(keys)
    }
    return TableState(begin, base, sizes, objects, changed, incomplete, carries, (last, key))


def index_is_due(objects: Objects, *, index_bytes: int = INDEX_BYTES) -> bool:
    """Return whether enough was written since the last index, or since the beginning."""
    found = objects.get(INDEX)
    if found is None or found.origin < objects.begin:
        return objects.bytes_before(objects.end) >= index_bytes
    return objects.bytes_after(found.origin) >= max(index_bytes, INDEX_SHARE * found.size)


# -- columns


def _framed(columns: Iterable[bytes]) -> Iterator[bytes]:
    for column in columns:
        yield _LENGTH.pack(len(column))
        yield column


def _columns_of(data: bytes) -> Iterator[memoryview]:
    view, at = memoryview(data), 0
    while at < len(view):
        [length] = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        if at + length > len(view):
            raise ValueError(f"{at + length - len(view)} bytes are missing")
        yield view[at : at + length]
        at += length


def _little(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _array_of(typecode: str, data: memoryview) -> array[int]:
    numbers = array(typecode, bytes(data))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _numbers(numbers: Iterable[int]) -> bytes:
    return _little(array("Q", numbers))


def _numbers_of(data: memoryview) -> array[int]:
    return _array_of("Q", data)


def _names(names: Iterable[str]) -> bytes:
    """Return names as a column: each ends with a separator, so that none differs from an empty one."""
    return "".join(name + SEPARATOR for name in names).encode()


def _names_of(data: memoryview) -> list[str]:
    return str(data, "utf-8").split(SEPARATOR)[:-1]


def _lists(lists: Sequence[Sequence[int]]) -> Iterator[bytes]:
    yield _numbers(len(one) for one in lists)
    yield _numbers(number for one in lists for number in one)


def _lists_of(columns: Iterator[memoryview]) -> list[tuple[int, ...]]:
    counts, numbers = _numbers_of(next(columns)), _numbers_of(next(columns))
    found, at = list[tuple[int, ...]](), 0
    for count in counts:
        found.append(tuple(numbers[at : at + count]))
        at += count
    return found


def _texts(texts: Sequence[bytes]) -> Iterator[bytes]:
    yield _numbers(len(text) for text in texts)
    yield b"".join(texts)


def _texts_of(columns: Iterator[memoryview]) -> list[bytes]:
    counts, joined = _numbers_of(next(columns)), next(columns)
    found, at = list[bytes](), 0
    for count in counts:
        found.append(bytes(joined[at : at + count]))
        at += count
    return found


# -- search


@dataclass(slots=True)
class _Parts:
    """Messages of one index."""

    values: dict[int, bytes] = field(default_factory=dict)
    count: int = 0
    """Their number, 0 while the last one is not found."""

    last: int = 0
    """Highest offset."""


def find_indexes(read: Callable[[int], list[LogMessage]], begin: int, end: int) -> Iterator[bytes]:
    """Yield the contents of the indexes of a topic, the newest first.

    ``read`` returns some messages from an offset on.
    """
    found: dict[tuple[int, int], _Parts] = {}
    first, count, searched = end, MESSAGES, 0
    while first > begin and searched < SEARCHED_BYTES:
        at, until = max(begin, first - count), first
        first = at
        while at < until:
            for message in read(at):
                at = message.offset + 1
                if at > until:
                    break
                searched += len(message.value)
                _collect(found, message)
        complete = [key for key, parts in found.items() if parts.count and len(parts.values) == parts.count]
        for key in sorted(complete, key=lambda key: found[key].last, reverse=True):
            parts = found.pop(key)
            yield b"".join(parts.values[part] for part in range(parts.count))
        mean = max(1, searched // (end - first))
        count = max(1, min(STEP * count, (SEARCHED_BYTES - searched) // mean))


def _collect(found: dict[tuple[int, int], _Parts], message: LogMessage) -> None:
    try:
        header = decode(message.key)
    except MessageUnknown:
        return  # the table refuses it
    if header is None or header.kind is not MessageKind.PUT or header.name != INDEX:
        return
    parts = found.setdefault((header.writer, header.number), _Parts())
    parts.values[header.part] = message.value
    parts.count = max(parts.count, header.parts)
    parts.last = max(parts.last, message.offset)
