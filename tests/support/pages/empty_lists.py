"""Arrays of no lists, whose first offset is any number: Arrow's validation ignores it."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

LISTS: Final = (pa.list_(pa.float32()), pa.large_list(pa.float32()))


def no_lists(kind: pa.DataType, *, first: int) -> pa.Array:
    """Return an array of ``kind``, one of `LISTS`, without a list."""
    offset = pa.array([first], pa.int64() if pa.types.is_large_list(kind) else pa.int32()).buffers()[1]
    return pa.Array.from_buffers(kind, 0, [None, offset], children=[pa.array([], kind.value_type)])
