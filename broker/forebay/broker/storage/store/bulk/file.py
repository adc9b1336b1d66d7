"""Bulk file: values written once, one after the other, and the table of their places.

    table     magic "FBBF", layout u8, items u32, bytes of what follows u32; per item: length of the key u16, key,
              length of the value u64; CRC-32 of all this u32
    values    as they came
    padding   so that the file ends with a whole block
    table     once more, should the first one be damaged
    end       bytes of the table u32, magic "FBBE"

A file is durable when ``write`` has returned, and its content does not change: deleted keys are recorded elsewhere, and
their space can be released. Its name is its first and last key in hexadecimal.

It is written with direct I/O where the file system allows it: the broker keeps recent pages itself, and allocating page
cache for them costs more processor time than the rest of the write.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from errno import EACCES, EPERM, EROFS
from itertools import accumulate
from pathlib import Path
from typing import Final

from forebay.broker.storage.file_errors import naming
from forebay.broker.storage.store.bulk.writer import BLOCK_BYTES, FileWriter
from forebay.broker.storage.store.contract import Value

SUFFIX: Final = ".pages"
_HEAD: Final = struct.Struct(">4sBII")
_KEY: Final = struct.Struct(">H")
_SIZE: Final = struct.Struct(">Q")
_CRC: Final = struct.Struct(">I")
_END: Final = struct.Struct(">I4s")
_MAGIC: Final = b"FBBF"
_END_MAGIC: Final = b"FBBE"
_LAYOUT: Final = 1
_TABLE_BYTES_MAX: Final = 64 << 20
_AHEAD_BYTES: Final = 8 << 20
"""Read-ahead for sequential readers."""


class Unreadable(ValueError):
    """No table of the file is intact, so the places of its values are unknown."""


class BulkFile:
    """File open for reading; closed with its last reference."""

    def __init__(self, path: Path) -> None:
        """Open it and read its table. Raises ``OSError`` or ``Unreadable``."""
        self._path: Final = path
        self.handle = _opened(path)
        with naming(path):
            self.places = _places(self.handle, path)
        """Position and size of each value, by rising key."""
        self._read_to = self._asked_to = -1

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            os.close(self.handle)

    def read(self, key: bytes) -> bytes | None:
        """Return the value of a key, shorter if the file ends early; None if the key does not exist."""
        place = self.places.get(key)
        if place is None:
            return None
        first, size = place
        self._look_ahead(first, first + size)
        with naming(self._path):
            found = os.pread(self.handle, size, first)
            while 0 < len(found) < size:
                more = os.pread(self.handle, size - len(found), first + len(found))
                if not more:
                    break
                found += more
        return found

    def prefetch(self, key: bytes) -> None:
        """Start to prefetch the value of a key, if there is one. Raises ``OSError``."""
        place = self.places.get(key)
        if place is not None and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.handle, *place, os.POSIX_FADV_WILLNEED)

    def _look_ahead(self, first: int, end: int) -> None:
        """Start read-ahead of the values that are likely next. Two concurrent readers may do so twice."""
        in_order, self._read_to = first == self._read_to, end
        if not in_order:
            self._asked_to = end
        elif self._asked_to < end + _AHEAD_BYTES // 2 and hasattr(os, "posix_fadvise"):
            begin, self._asked_to = max(end, self._asked_to), end + _AHEAD_BYTES
            os.posix_fadvise(self.handle, begin, self._asked_to - begin, os.POSIX_FADV_WILLNEED)


def _opened(path: Path) -> int:
    """Return a handle that can release space, or one for reading on a disk that cannot be written."""
    try:
        return os.open(path, os.O_RDWR)
    except OSError as error:
        if error.errno not in {EROFS, EACCES, EPERM}:
            raise
    return os.open(path, os.O_RDONLY)


def name_of(first: bytes, last: bytes) -> str:
    """Return the name of a file with these keys."""
    return f"{first.hex()}-{last.hex()}{SUFFIX}"


def keys_in_name(name: str) -> tuple[bytes, bytes] | None:
    """Return the first and last key of a file by its name; None for another file."""
    first, dash, last = name.removesuffix(SUFFIX).partition("-")
    try:
        return (bytes.fromhex(first), bytes.fromhex(last)) if dash and name.endswith(SUFFIX) else None
    except ValueError:
        return None


def write(path: Path, items: Sequence[tuple[bytes, Value]], buffer: mmap.mmap) -> None:
    """Write a new file through ``buffer`` to disk; its name is not durable yet. Raises ``OSError``.

    Other threads run while it writes.
    """
    values = [(value,) if isinstance(value, bytes) else value for _, value in items]
    sizes = [sum(map(len, pieces)) for pieces in values]
    table = _table([key for key, _ in items], sizes)
    end = table + _END.pack(len(table), _END_MAGIC)
    padding = bytes(-(len(table) + sum(sizes) + len(end)) % BLOCK_BYTES)
    with naming(path), FileWriter(path, buffer) as writing:
        for piece in (table, *(piece for pieces in values for piece in pieces), padding, end):
            writing.add(piece)
        writing.finish()


def _table(keys: Iterable[bytes], sizes: Sequence[int]) -> bytes:
    rows = b"".join(_KEY.pack(len(key)) + key + _SIZE.pack(size) for key, size in zip(keys, sizes, strict=True))
    whole = _HEAD.pack(_MAGIC, _LAYOUT, len(sizes), len(rows)) + rows
    return whole + _CRC.pack(zlib.crc32(whole))


def _places(handle: int, path: Path) -> dict[bytes, tuple[int, int]]:
    unread: OSError | None = None
    for table in (_first_table, _last_table):
        try:
            found = table(handle)
        except OSError as error:  # of a sector: the other table may be elsewhere on the disk
            unread = error
            continue
        if found is not None:
            return found
    if unread is not None:
        raise unread
    raise Unreadable(f"{path}: both of its tables are damaged")


def _first_table(handle: int) -> dict[bytes, tuple[int, int]] | None:
    return _parsed(handle, 0)


def _last_table(handle: int) -> dict[bytes, tuple[int, int]] | None:
    last = os.fstat(handle).st_size - _END.size
    end = os.pread(handle, _END.size, max(0, last))
    size, magic = _END.unpack(end) if len(end) == _END.size else (0, b"")
    return _parsed(handle, max(0, last - size)) if magic == _END_MAGIC else None


def _parsed(handle: int, at: int) -> dict[bytes, tuple[int, int]] | None:
    """Return the table at a place of the file; None if it is damaged."""
    head = os.pread(handle, _HEAD.size, at)
    if len(head) < _HEAD.size:
        return None
    magic, layout, items, size = _HEAD.unpack(head)
    if magic != _MAGIC or layout != _LAYOUT or size > _TABLE_BYTES_MAX:
        return None
    rows = os.pread(handle, size + _CRC.size, at + _HEAD.size)
    if len(rows) < size + _CRC.size or zlib.crc32(head + rows[:size]) != _CRC.unpack_from(rows, size)[0]:
        return None
    keys: list[bytes] = []
    sizes: list[int] = []
    place = 0
    for _ in range(items):
        (length,) = _KEY.unpack_from(rows, place)
        place += _KEY.size
        keys.append(rows[place : place + length])
        place += length
        sizes.append(_SIZE.unpack_from(rows, place)[0])
        place += _SIZE.size
    firsts = accumulate(sizes[:-1], initial=_HEAD.size + size + _CRC.size)
    return dict(zip(keys, zip(firsts, sizes, strict=True), strict=True))
