"""Arrow arrays whose strings are not UTF-8, as Spark hands them over."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def unchecked_strings(values: Sequence[bytes | None]) -> pa.Array:
    """Return a string array with these bytes, whatever they are."""
    binary = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(binary), binary.buffers(), binary.null_count)
