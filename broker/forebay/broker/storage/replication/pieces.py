"""Consecutive pieces of bytes with their checksums.

Those of a frame and of its records are combined from them, so each byte is read once for both. CRC-32 is linear: that
of two parts in a row follows from theirs and the size of the second.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Final, TypeAlias

from isal.isal_zlib import crc32_combine

from forebay.page.crc32 import crc32

Piece: TypeAlias = bytes | memoryview
_CRC: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces, their size and their CRC-32 as a whole."""

    data: list[Piece]
    crcs: list[int]
    """CRC-32 of each piece."""

    @classmethod
    def of(cls, data: Iterable[Piece]) -> Pieces:
        """Return pieces with the checksums that they have now."""
        pieces = list(data)
        return cls(pieces, [crc32(piece) for piece in pieces])

    @classmethod
    def joining(cls, parts: Iterable[Pieces]) -> Pieces:
        """Return the pieces of all parts, which are not read."""
        taken = list(parts)
        return cls([piece for part in taken for piece in part.data], [crc for part in taken for crc in part.crcs])

    @property
    def size(self) -> int:
        """Bytes of all pieces."""
        return sum(map(len, self.data))

    def joined(self) -> bytes:
        """Return all pieces as one."""
        return b"".join(self.data)

    def end(self, size: int) -> bytes:
        """Return the last ``size`` bytes."""
        found = b""
        for piece in reversed(self.data):
            if len(found) == size:
                break
            found = bytes(piece[len(found) - size :]) + found
        return found

    def is_sealed(self) -> bool:
        """Return whether the last four bytes are the CRC-32 of those before them, as a big-endian number."""
        end = self.end(_CRC.size)
        if len(end) < _CRC.size:
            return False
        [its_crc] = _CRC.unpack(end)
        return self.crc32() == crc32_combine(its_crc, crc32(end), len(end))

    def crc32(self, before: int = 0) -> int:
        """Return the CRC-32 of all pieces, after bytes whose CRC-32 is ``before``."""
        crc = before
        for piece, its_crc in zip(self.data, self.crcs, strict=True):
            crc = crc32_combine(crc, its_crc, len(piece))
        return crc

    def cut(self, bytes_max: int) -> list[Pieces]:
        """Return as few and equal parts as possible of at most ``bytes_max``, without copies."""
        total = self.size
        size = ceil(total / ceil(total / bytes_max))
        parts = [Pieces([], [])]
        room = size
        waiting = [(memoryview(piece), crc) for piece, crc in zip(self.data, self.crcs, strict=True) if piece]
        waiting.reverse()
        while waiting:
            if not room:
                parts.append(Pieces([], []))
                room = size
            piece, crc = waiting.pop()
            if len(piece) > room:
                first, rest = piece[:room], piece[room:]
                whole_crc, crc = crc, crc32(first)
                waiting.append((rest, crc32_combine(crc, whole_crc, len(rest))))  # what was combined is taken away
                piece = first
            parts[-1].data.append(piece)
            parts[-1].crcs.append(crc)
            room -= len(piece)
        return parts
