"""Columns of little-endian numbers, and the sums that a page needs of them.

Most columns of lengths hold one number many times. A comparison of memory finds that, and makes sums products.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import Literal

from forebay.page.format import Buffer


def read(column: Buffer, kind: Literal["I", "q"]) -> array[int]:
    """Return the numbers of a column: unsigned 32-bit (``I``) or signed 64-bit (``q``)."""
    numbers = array(kind)
    numbers.frombytes(column)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def written(numbers: Sequence[int], kind: Literal["I", "q"]) -> bytes:
    """Return the encoded column of numbers."""
    column = numbers if isinstance(numbers, array) and numbers.typecode == kind else array(kind, numbers)
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def lengths_of(values: Sequence[bytes]) -> array[int]:
    """Return the length of each value."""
    lengths = list(map(len, values))
    if lengths and lengths.count(lengths[0]) == len(lengths):
        return array("I", lengths[:1]) * len(lengths)
    return array("I", lengths)


def is_one_size(lengths: array[int]) -> bool:
    """Return True if there are lengths and all are equal."""
    return bool(lengths) and lengths[1:] == lengths[:-1]


def total_of(lengths: array[int]) -> int:
    """Return the sum of some lengths."""
    return len(lengths) * lengths[0] if is_one_size(lengths) else sum(lengths)
