"""A kind has all its widths and no other type; values of a type that always has JSON have it, also within others."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from forebay.arrow.json_objects import json_objects
from forebay.arrow.kinds import always_has_json, is_bytes, is_list, is_text

KINDS = {
    is_text: (pa.string(), pa.large_string()),
    is_bytes: (pa.binary(), pa.large_binary(), pa.binary(3)),
    is_list: (pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_(pa.int8(), 2)),
}
OTHERS = (pa.int64(), pa.null(), pa.struct({"a": pa.string()}), pa.map_(pa.string(), pa.binary()))


def test_a_type_is_of_one_kind_at_most() -> None:
    for of, types in KINDS.items():
        assert [[is_kind(one) for is_kind in KINDS] for one in types] == [[is_kind is of for is_kind in KINDS]] * len(
            types
        )
    assert not any(is_kind(one) for is_kind in KINDS for one in OTHERS)


ALWAYS = (
    *(pa.null(), pa.bool_(), pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(38, 10)),
    *(pa.decimal256(76, 0), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(3), pa.date32()),
    *(pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "Mars/Olympus")),
    pa.dictionary(pa.int32(), pa.string()),
)
NOT_ALWAYS = (
    *(pa.month_day_nano_interval(), pa.float16(), pa.time64("us"), pa.duration("us"), pa.date64(), pa.string_view()),
    *(pa.list_view(pa.int8()), pa.run_end_encoded(pa.int32(), pa.int8()), pa.dense_union([pa.field("a", pa.int8())])),
)
WITHIN: tuple[Callable[[pa.DataType], pa.DataType], ...] = (
    pa.list_,
    pa.large_list,
    lambda kind: pa.list_(kind, 2),
    lambda kind: pa.struct({"a": pa.int8(), "b": kind}),
    lambda kind: pa.map_(pa.string(), kind),
)


@pytest.mark.parametrize("kind", ALWAYS, ids=str)
def test_a_type_has_json_alone_and_within_others(kind: pa.DataType) -> None:
    for each in (kind, *(within(kind) for within in WITHIN)):
        assert always_has_json(each)
        assert json_objects(pa.record_batch({"a": pa.nulls(2, each)})) == [b'{"a":null}'] * 2


@pytest.mark.parametrize("kind", NOT_ALWAYS, ids=str)
def test_other_types_have_it_neither_alone_nor_within_others(kind: pa.DataType) -> None:
    assert not always_has_json(kind)
    assert not any(always_has_json(within(kind)) for within in WITHIN)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        *((pa.timestamp(unit, zone), pa.int64()) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
        (pa.timestamp("us", "Mars/Olympus"), pa.int64()),
        (pa.date32(), pa.int32()),
    ],
    ids=str,
)
def test_the_extremes_of_times_have_json(kind: pa.DataType, numbers: pa.DataType) -> None:
    most = 2 ** (numbers.bit_width - 1)
    values = pa.array([-most, -1, 0, most - 1, None], numbers).view(kind)

    assert len(json_objects(pa.record_batch({"a": values}))) == 5
