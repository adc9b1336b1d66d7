"""Values and keys of a bulk with their sizes, which are computed once to divide the bulk into pages.

Most columns have values of one size. This is detected by comparing memory instead of numbers, and turns sums into
products.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from forebay.client.errors import InvalidPage
from forebay.client.publish.pages import EncodedPage, encode_columns
from forebay.page.numbers import is_one_size, lengths_of

HELD_BYTES: Final = 48
"""Memory of each object of a record besides its content: its head, place and alignment."""


def check_types(values: Sequence[bytes], keys: Sequence[bytes | None] | None) -> None:
    """Raise ``InvalidPage`` for types that could not be encoded later, on another thread."""
    if list(map(type, values)).count(bytes) != len(values):
        raise InvalidPage("values must be bytes")
    if keys is not None:
        kinds = list(map(type, keys))
        if kinds.count(bytes) + kinds.count(type(None)) != len(keys):
            raise InvalidPage("keys must be bytes or None")


@dataclass(frozen=True, slots=True)
class SizedColumns:
    """Columns of equal length."""

    values: Sequence[bytes]
    keys: Sequence[bytes | None] | None
    value_lengths: array[int]
    ends: Sequence[int]
    """Cumulative bytes of keys and values: before each record, and in total."""

    @classmethod
    def of(cls, values: Sequence[bytes], keys: Sequence[bytes | None] | None) -> SizedColumns:
        """Return columns with their sizes; the types must have been checked."""
        lengths = lengths_of(values)
        return cls(values, keys, lengths, _ends(lengths, keys))

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.values)

    def size(self, first: int, end: int) -> int:
        """Return the bytes of keys and values of the records ``[first, end)``."""
        return self.ends[end] - self.ends[first]

    def held_bytes(self, first: int, end: int) -> int:
        """Return the memory of the records ``[first, end)``, for the bound of a buffer."""
        return self.size(first, end) + (end - first) * HELD_BYTES * (1 if self.keys is None else 2)

    def largest(self) -> int:
        """Return the bytes of key and value of the largest record, 0 for none."""
        return max(map(operator.sub, self.ends[1:], self.ends), default=0)

    def part(self, first: int, end: int) -> tuple[Sequence[bytes], Sequence[bytes | None] | None, array[int]]:
        """Return values, keys and value lengths of the records ``[first, end)``."""
        keys = None if self.keys is None else self.keys[first:end]
        return self.values[first:end], keys, self.value_lengths[first:end]

    def encode(self, first: int, end: int) -> EncodedPage:
        """Return a page of the records ``[first, end)``."""
        values, keys, lengths = self.part(first, end)
        return encode_columns(values, keys, value_lengths=lengths)


def _ends(lengths: array[int], keys: Sequence[bytes | None] | None) -> Sequence[int]:
    if keys is not None:
        sizes = (length + len(key or b"") for length, key in zip(lengths, keys, strict=True))
        return list(accumulate(sizes, initial=0))
    if is_one_size(lengths) and lengths[0]:
        return range(0, (len(lengths) + 1) * lengths[0], lengths[0])
    return list(accumulate(lengths, initial=0))
