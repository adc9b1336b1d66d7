"""Entries of maps are those of the maps that are not null, also of a slice and with nulls of every type below them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from forebay.arrow import json_objects, json_pieces
from forebay.arrow.json_objects import batch_bytes
from forebay.arrow.maps import map_entries, map_lengths

MAPS = pa.array([[("a", 1)], None, [], [("b", 2), ("c", None)]], pa.map_(pa.string(), pa.int64()))


def hidden() -> pa.MapArray:
    """Maps of which a null one has entries all the same."""
    there = pa.array([True, False, True]).buffers()[1]
    entries = pa.StructArray.from_arrays([pa.array(["a", "b", "c"]), pa.array([1, 2, 3])], ["key", "value"])
    offsets = pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(MAPS.type, 3, [there, offsets], 1, 0, [entries])


@pytest.mark.parametrize(
    ("maps", "lengths", "keys", "values"),
    [
        (MAPS, [1, 0, 0, 2], ["a", "b", "c"], [1, 2, None]),
        (MAPS.slice(3), [2], ["b", "c"], [2, None]),
        (MAPS.slice(1, 2), [0, 0], [], []),
        (MAPS.slice(4), [], [], []),
        (hidden(), [1, 0, 1], ["a", "c"], [1, 3]),
        (hidden().slice(1), [0, 1], ["c"], [3]),
    ],
)
def test_a_null_map_has_no_entries_whatever_its_offsets_say(
    maps: pa.MapArray, lengths: list[int], keys: list[str], values: list[int | None]
) -> None:
    assert map_lengths(maps).to_pylist() == lengths
    assert [each.to_pylist() for each in map_entries(maps)] == [keys, values]


NULLS: tuple[Callable[[], pa.DataType], ...] = (
    pa.null,
    lambda: pa.struct({"a": pa.null()}),
    lambda: pa.list_(pa.null()),
    lambda: pa.large_list(pa.null()),
    lambda: pa.list_(pa.null(), 2),
    lambda: pa.map_(pa.string(), pa.null()),
    lambda: pa.map_(pa.string(), pa.struct({"a": pa.null()})),
)
CONTENT = {"struct": {"a": None}, "map": [("n", None)]}


@pytest.mark.parametrize("kind", NULLS, ids=lambda kind: str(kind()))
def test_parts_of_a_page_with_nulls_below_a_map_have_json(kind: Callable[[], pa.DataType]) -> None:
    of = kind()
    value = CONTENT.get(str(of).partition("<")[0], [None, None] if pa.types.is_nested(of) else None)
    rows = [None if number % 3 == 0 else [("k", value), ("l", None)] for number in range(600)]
    batch = pa.record_batch({"x": pa.array(rows, pa.map_(pa.string(), of))})
    whole = json_objects(batch)

    parts = [batch.slice(first, 100) for first in range(0, 600, 100)]
    pieces = [piece for _, piece, _ in json_pieces(batch, bytes_max=1_000)]

    assert whole[3] == b'{"x":null}'
    assert whole[1].startswith(b'{"x":{"k":')
    for each in (parts, pieces):
        assert [text for part in each for text in json_objects(part)] == whole
    assert all(sum(map(len, json_objects(part))) <= batch_bytes(part) for part in parts)


def test_keys_with_a_dictionary_are_the_keys_of_json() -> None:
    keys = pa.array([5, 6, 5], pa.int64()).dictionary_encode()
    entries = pa.StructArray.from_arrays([keys, pa.array([1, 2, 3])], ["key", "value"])
    kind = pa.map_(keys.type, pa.int64())
    offsets = pa.array([0, 2, 3], pa.int32()).buffers()[1]
    maps = pa.Array.from_buffers(kind, 2, [None, offsets], 0, 0, [entries])

    assert json_objects(pa.record_batch({"x": maps})) == [b'{"x":{"5":1,"6":2}}', b'{"x":{"5":3}}']
