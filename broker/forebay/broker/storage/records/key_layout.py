"""Layout of keys: numbers, and at most one text between or after them.

It is written as in ``"sink u32, name text"``. Numbers are big-endian, so keys sort as numbers do. A text that numbers
follow has its length, u8, before it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

Span: TypeAlias = tuple[bytes, bytes]
"""First key, and the key after the last one."""
_FORMATS: Final = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "text": ""}


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyLayout:
    """Keys of one kind of stored value."""

    layout: str
    """Names and types of the parts after the prefix; see above."""

    prefix: bytes = b""
    """First byte of the keys. Only kinds of the meta family have one."""

    def key(self, *parts: Any) -> bytes:
        """Return the key with these parts; of the first parts only, the beginning of all such keys."""
        if len(parts) == self._cut:
            return self.prefix + self._pack(*parts)
        head = self.prefix + self._heads[min(len(parts), self._cut)].pack(*parts[: self._cut])
        if len(parts) < self._cut:
            return head
        text: bytes = parts[self._cut].encode()
        numbers = parts[self._cut + 1 :]
        if not self._tails[-1].size:
            return head + text
        return head + bytes([len(text)]) + text + self._tails[len(numbers)].pack(*numbers)

    def parts(self, key: bytes) -> tuple[Any, ...]:
        """Return the parts of a key."""
        found = self._heads[-1].unpack_from(key, len(self.prefix))
        at = len(self.prefix) + self._heads[-1].size
        if not self._tails:
            return found
        if not self._tails[-1].size:
            return *found, key[at:].decode()
        end = at + 1 + key[at]
        return *found, key[at + 1 : end].decode(), *self._tails[-1].unpack_from(key, end)

    def under(self, *parts: Any) -> Span:
        """Return the keys that have these first parts."""
        first = self.key(*parts)
        if len(parts) > self._cut:
            rest = self._tails[-1].size - self._tails[len(parts) - self._cut - 1].size
            return first, first + b"\xff" * (rest + 1)
        return first, (int.from_bytes(first, "big") + 1).to_bytes(len(first), "big")

    def between(self, *parts: Any, first: int, end: int) -> Span:
        """Return the keys that have these first parts, and whose next number is in ``[first, end)``."""
        return self.key(*parts, first), self.key(*parts, end)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the parts."""
        return tuple(part.split()[0] for part in self.layout.split(", ") if part)

    @cached_property
    def _types(self) -> list[str]:
        return [_FORMATS[part.split()[1]] for part in self.layout.split(", ") if part]

    @cached_property
    def _cut(self) -> int:
        """Number of parts before the text, or of all parts."""
        return self._types.index("") if "" in self._types else len(self._types)

    @cached_property
    def _heads(self) -> list[struct.Struct]:
        """Layouts of the first parts before the text, by their number."""
        return [struct.Struct(">" + "".join(self._types[:count])) for count in range(self._cut + 1)]

    @cached_property
    def _tails(self) -> list[struct.Struct]:
        """Layouts of the first parts after the text, by their number; empty without a text."""
        after = self._types[self._cut + 1 :]
        count = len(after) + 1 if self._cut < len(self._types) else 0
        return [struct.Struct(">" + "".join(after[:end])) for end in range(count)]

    @cached_property
    def _pack(self) -> Callable[..., bytes]:
        return self._heads[-1].pack
