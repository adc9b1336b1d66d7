"""A kind has all its widths, and no other type."""

from __future__ import annotations

import pyarrow as pa

from forebay.arrow.kinds import is_bytes, is_list, is_text

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
