"""Rows with a schema: Arrow code shared by broker, client and Spark.

Requires pyarrow, so it is imported only when there are rows. It depends on neither gRPC nor the broker.
"""

from __future__ import annotations

from forebay.arrow.batches import one_batch
from forebay.arrow.checks import RowInvalid, checked
from forebay.arrow.dictionaries import can_be_coded, coded
from forebay.arrow.expansion import EXPANDED_BYTES_MAX, UNREADABLE, RowsUnreadable, expanded_bytes
from forebay.arrow.from_json import rows_from_json
from forebay.arrow.ipc import decode_rows, encode_batches, encode_schema, read_schema
from forebay.arrow.json_objects import PIECE_BYTES, batch_bytes, checked_bytes, json_objects, json_pieces
from forebay.arrow.json_prefix import json_prefix
from forebay.arrow.json_rows import json_rows
from forebay.arrow.kinds import always_has_json
from forebay.arrow.salvage import ReadableRows, Unreadable, nothing_readable, readable_rows

__all__ = [
    "EXPANDED_BYTES_MAX",
    "PIECE_BYTES",
    "UNREADABLE",
    "ReadableRows",
    "RowInvalid",
    "RowsUnreadable",
    "Unreadable",
    "always_has_json",
    "batch_bytes",
    "can_be_coded",
    "checked",
    "checked_bytes",
    "coded",
    "decode_rows",
    "encode_batches",
    "encode_schema",
    "expanded_bytes",
    "json_objects",
    "json_pieces",
    "json_prefix",
    "json_rows",
    "nothing_readable",
    "one_batch",
    "read_schema",
    "readable_rows",
    "rows_from_json",
]
