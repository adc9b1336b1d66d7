"""Batch frame: the bulk values and operations of one commit as bytes, for a journal.

    frame       version 1 byte, bulk, operations, CRC-32 of everything before 4 bytes
    bulk        count 4 bytes, then per value: key, size 8 bytes, value
    operations  count 4 bytes, then per operation: kind 1 byte, family 1 byte, and
                    put           key, value
                    put all       count 4 bytes, then per entry: key, value
                    delete        key
                    delete range  first key, end
    key, value  size 4 bytes, bytes

Numbers are big-endian. A reader accepts the versions that it knows, and every byte belongs to a field: what decodes is
encoded to the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.storage.replication.pieces import Piece, Pieces
from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Operation, Put, PutAll, Value
from forebay.state.numbers import plural

VERSION: Final = 1
FAMILIES: Final = (Family.BULK, Family.SMALL, Family.INDEX, Family.META)
"""Families by their number in a frame."""
COPIED_BYTES_MAX: Final = 64 << 10
"""Size below which parts of a frame are copied together.

Few large pieces cost an engine less than many small ones.
"""

_PUT, _PUT_ALL, _DELETE, _DELETE_RANGE = range(1, 5)
_NUMBER: Final = struct.Struct(">I")
_SIZE: Final = struct.Struct(">Q")
_HEAD: Final = struct.Struct(">BB")
_FAMILY_NUMBERS: Final = {family: number for number, family in enumerate(FAMILIES)}


class FrameDamaged(ValueError):
    """Bytes that are no frame, or one of an unknown version."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Bulk values and operations of one commit."""

    bulk: Sequence[tuple[bytes, Value]]
    operations: Sequence[Operation]


def encode(batch: Batch) -> Pieces:
    """Return a frame; large values are not copied."""
    pieces = Pieces.of(_joined(_parts(batch)))
    end = Pieces.of([_NUMBER.pack(pieces.crc32())])
    return Pieces(pieces.data + end.data, pieces.crcs + end.crcs)


def _parts(batch: Batch) -> Iterator[Piece]:
    yield bytes([VERSION])
    yield _NUMBER.pack(len(batch.bulk))
    for key, value in batch.bulk:
        values = (value,) if isinstance(value, bytes) else value
        yield from (_sized(key), _SIZE.pack(sum(map(len, values))), *values)
    yield _NUMBER.pack(len(batch.operations))
    for operation in batch.operations:
        yield from _operation(operation)


def _joined(parts: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the same bytes with small neighbours joined."""
    small: list[Piece] = []
    for part in parts:
        if len(part) < COPIED_BYTES_MAX:
            small.append(part)
            continue
        if small:
            yield b"".join(small)
            small = []
        yield part
    if small:
        yield b"".join(small)


def _operation(operation: Operation) -> tuple[bytes, ...]:
    family = _FAMILY_NUMBERS[operation.family]
    match operation:
        case Put(_, key, value):
            return (_HEAD.pack(_PUT, family), _sized(key), _NUMBER.pack(len(value)), value)
        case PutAll(_, keys, values):
            entries = (part for entry in zip(keys, values, strict=True) for part in map(_sized, entry))
            return (_HEAD.pack(_PUT_ALL, family), _NUMBER.pack(len(keys)), *entries)
        case Delete(_, key):
            return (_HEAD.pack(_DELETE, family), _sized(key))
        case DeleteRange(_, first, end):
            return (_HEAD.pack(_DELETE_RANGE, family), _sized(first), _sized(end))


def _sized(data: bytes) -> bytes:
    return _NUMBER.pack(len(data)) + data


def decode(frame: Pieces) -> Batch:
    """Return the batch of a frame, whose bulk values are parts of its pieces. Raises ``FrameDamaged``."""
    size = frame.size
    if size < 1 + _NUMBER.size:
        raise FrameDamaged(f"it has {size} {plural(size, 'byte')}")
    reader = _Reader(frame.data, size - _NUMBER.size)
    [version] = reader.take(1)
    if version != VERSION:
        raise FrameDamaged(f"its version is {version}, this version reads {VERSION}")
    if not frame.is_sealed():
        raise FrameDamaged("its checksum is wrong")
    bulk = [(reader.sized(), reader.pieces(reader.unpack(_SIZE))) for _ in range(reader.unpack(_NUMBER))]
    reader.join()
    operations = [_read_operation(reader) for _ in range(reader.unpack(_NUMBER))]
    if reader.left:
        raise FrameDamaged(f"{reader.left} {plural(reader.left, 'byte follows', 'bytes follow')} its last operation")
    return Batch(bulk, operations)


def _read_operation(reader: _Reader) -> Operation:
    kind, number = reader.take(_HEAD.size)
    if number >= len(FAMILIES):
        raise FrameDamaged(f"family {number} is unknown")
    family = FAMILIES[number]
    try:
        match kind:
            case 1:
                return Put(family, reader.sized(), reader.sized())
            case 2:
                entries = [(reader.sized(), reader.sized()) for _ in range(reader.unpack(_NUMBER))]
                return PutAll(family, [key for key, _ in entries], [value for _, value in entries])
            case 3:
                return Delete(family, reader.sized())
            case 4:
                return DeleteRange(family, reader.sized(), reader.sized())
    except FrameDamaged:
        raise
    except ValueError as error:
        raise FrameDamaged(f"an operation is invalid: {error}") from error
    raise FrameDamaged(f"operation {kind} is unknown")


class _Reader:
    """Position in consecutive pieces."""

    def __init__(self, pieces: Iterable[Piece], size: int) -> None:
        """Read the first ``size`` bytes."""
        self._next = iter(pieces)
        self._piece: Piece = b""
        self._at = 0
        self.left = size
        """Bytes that were not taken."""

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raises ``FrameDamaged`` where there are fewer."""
        first, end = self._at, self._at + size
        if size > self.left or end > len(self._piece):
            return b"".join(self.pieces(size))
        self._at, self.left = end, self.left - size
        return bytes(self._piece[first:end])

    def pieces(self, size: int) -> tuple[memoryview, ...]:
        """Return the next bytes without a copy. Raises as ``take``."""
        if size > self.left:
            raise FrameDamaged(f"it ends within a field of {size} {plural(size, 'byte')}")
        self.left -= size
        found: list[memoryview] = []
        while size:
            part = memoryview(self._piece)[self._at : self._at + size]
            if part:
                found.append(part)
                self._at, size = self._at + len(part), size - len(part)
            else:
                self._piece, self._at = next(self._next), 0
        return tuple(found)

    def join(self) -> None:
        """Copy what is left into one piece: many small fields are taken faster from it."""
        size = self.left
        self._piece, self._at, self.left = b"".join(self.pieces(size)), 0, size

    def unpack(self, number: struct.Struct) -> int:
        """Return the next number."""
        [found] = number.unpack(self.take(number.size))
        return int(found)

    def sized(self) -> bytes:
        """Return the bytes after their size."""
        return self.take(self.unpack(_NUMBER))
