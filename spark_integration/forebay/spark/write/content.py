"""Content of a task's rows: their number, and a digest independent of order, pages and partitions.

Spark may repeat a micro-batch with other tasks, in another order of rows. A digest for such a repeat must be a sum over
rows. This one is a sum per column: of values, or of bytes and lengths, each with its own weight. Sums cost a few
nanoseconds per row; a hash per row costs more than the write. The digest detects accidents, not attacks, and not values
of a column that were swapped between rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from forebay.client import EpochContent

KIND: Final = "sums1"
"""Version of the digest; digests of different kinds are not compared."""
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class RowContent:
    """Number of rows and sum of their digests. Contents of parts add up to that of the whole."""

    records: int = 0
    sums: int = 0
    """Sum modulo 2**64."""

    def __add__(self, other: RowContent) -> RowContent:
        return RowContent(self.records + other.records, (self.sums + other.sums) & _MASK)

    @property
    def of_epoch(self) -> EpochContent:
        """Return the content in the form of a commit."""
        return EpochContent(self.records, f"{KIND}:{self.sums:016x}")


class CountedBatches:
    """Iterator over a task's batches that sums their content."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.content = RowContent()
        """Content of the batches so far."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.content += content_of(batch)
            yield batch

    def drain(self) -> None:
        """Read the remaining batches, for their content only."""
        for _ in self:
            pass


def content_of(batch: pa.RecordBatch) -> RowContent:
    """Return the content of a batch. A column of nulls adds nothing, like a missing column."""
    total = 0
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for path, number in _sums(name.lower(), column):
            total += _weight(path) * number
    return RowContent(batch.num_rows, total & _MASK)


@lru_cache(maxsize=10_000)
def _weight(path: str) -> int:
    return int.from_bytes(blake2b(path.encode(errors="surrogatepass"), digest_size=8).digest()) | 1


def _sums(path: str, column: pa.Array) -> Iterator[tuple[str, int]]:
    """Yield the sums of a column and its nested columns, with their paths."""
    kind = column.type
    if pa.types.is_null(kind):
        return
    if isinstance(column, pa.ExtensionArray):
        yield from _sums(path, column.storage)
        return
    if pa.types.is_dictionary(kind):
        yield from _sums(path, column.dictionary_decode())
        return
    yield f"{path}#", len(column) - column.null_count
    if pa.types.is_struct(kind):
        for field, child in zip(kind, column.flatten(), strict=True):
            yield from _sums(f"{path}.{field.name.lower()}", child)
    elif pa.types.is_map(kind):
        entries = column.drop_null() if column.null_count else column
        first, last = (entries.offsets[0].as_py(), entries.offsets[-1].as_py()) if len(entries) else (0, 0)
        yield from _sums(f"{path}[key]", entries.keys.slice(first, last - first))
        yield from _sums(f"{path}[value]", entries.items.slice(first, last - first))
    elif _is_list(kind):
        elements = column.flatten()
        yield f"{path}[#]", len(elements)
        yield from _sums(f"{path}[]", elements)
    elif _is_text(kind):
        size, total = _bytes(column)
        yield f"{path}#bytes", size
        yield f"{path}=", total
    else:
        yield f"{path}=", _values(column)


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind)
    )


def _bytes(column: pa.Array) -> tuple[int, int]:
    """Return the number of bytes of a column of strings or binaries, and their sum."""
    if not len(column):
        return 0, 0
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    ends = pa.Array.from_buffers(pa.int64() if wide else pa.int32(), len(column) + 1, [None, offsets], 0, column.offset)
    first, last = ends[0].as_py(), ends[len(column)].as_py()
    if data is None or first == last:
        return 0, 0
    return last - first, _total(pa.Array.from_buffers(pa.uint8(), last - first, [None, data], 0, first))


def _values(column: pa.Array) -> int:
    """Return the sum of the values of a fixed-width column, as integers."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _total(column)
    if column.null_count:
        column = column.drop_null()
    width = _width(kind)
    if not width or not len(column):
        return 0
    data = column.buffers()[1]
    first, each = column.offset * width, pa.int64() if width % 8 == 0 else pa.int32() if width % 4 == 0 else pa.uint8()
    size = each.bit_width // 8
    return _total(pa.Array.from_buffers(each, len(column) * width // size, [None, data], 0, first // size))


def _width(kind: pa.DataType) -> int:
    """Return the bytes of a value; 0 for a type without fixed width."""
    try:
        return int(kind.bit_width) // 8
    except ValueError:
        return 0


def _total(numbers: pa.Array) -> int:
    return int(pc.sum(numbers).as_py() or 0)
