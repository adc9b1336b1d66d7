"""Rows with a schema: what broker, client and Spark share about Arrow.

Needs pyarrow, so nobody imports it before there are rows. It knows bytes and batches, and neither gRPC nor a broker.
"""

from __future__ import annotations

from holdfast.arrow.from_json import rows_from_json
from holdfast.arrow.ipc import RowsUnreadable, decode_rows, encode_batches, encode_schema, read_schema
from holdfast.arrow.json_rows import json_rows

__all__ = [
    "RowsUnreadable",
    "decode_rows",
    "encode_batches",
    "encode_schema",
    "json_rows",
    "read_schema",
    "rows_from_json",
]
