"""Schemas and rows as messages of Arrow's IPC stream format.

A page contains the messages after the schema message, because a schema is stored once per version. Input comes over a
network: its decoded size is checked before decoding, and it is validated before its offsets are used.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import Final, Literal

import pyarrow as pa

from forebay.arrow.batches import one_batch
from forebay.arrow.checks import BEYOND_ITS_ELEMENTS, begins_beyond
from forebay.arrow.dictionaries import coded_schema, plain, plain_bytes
from forebay.arrow.expansion import RowsUnreadable, check_expanded, expanded_bytes, is_native

Compression = Literal["none", "lz4", "zstd"]
_END: Final = 8
"""Bytes that close a stream: a continuation marker and a length of zero."""


def encode_schema(schema: pa.Schema) -> bytes:
    """Return the schema message."""
    return bytes(schema.serialize())


def read_schema(message: bytes) -> pa.Schema:
    """Return the schema of a schema message. Raises `RowsUnreadable`, also for another byte order."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(message))
        in_order = is_native(pa.ipc.read_message(pa.py_buffer(message)))
    except (pa.ArrowException, OSError, EOFError, struct.error) as error:
        raise RowsUnreadable(f"the schema cannot be read: {error}") from error
    if not in_order:
        raise RowsUnreadable(f"the schema cannot be read: its byte order is not {sys.byteorder}-endian")
    return schema


def encode_batches(batches: Sequence[pa.RecordBatch], compression: Compression = "none") -> bytes:
    """Return the messages of one or more batches with one schema, without the schema message."""
    options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
    sink = pa.BufferOutputStream()
    begun = len(encode_schema(batches[0].schema))
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    written = sink.getvalue()
    return written.slice(begun, written.size - begun - _END).to_pybytes()  # type: ignore[no-any-return]


def decode_rows(
    schema: bytes, messages: bytes | memoryview, rows: int, dictionary_columns: Sequence[tuple[int, int]] = ()
) -> pa.RecordBatch:
    """Return the rows of a page as one batch with the types of ``schema``.

    ``dictionary_columns``: place and bytes per row of the columns that the page codes by a dictionary. Raises
    `RowsUnreadable`, also when there are not as many rows as stated, or when they become too large.
    """
    return _decoded(schema, messages, rows, dictionary_columns, validated=True)


def unvalidated_rows(
    schema: bytes, messages: bytes | memoryview, rows: int, dictionary_columns: Sequence[tuple[int, int]] = ()
) -> pa.RecordBatch:
    """Decode rows as ``decode_rows``, without validating values; only for messages of sound structure."""
    return _decoded(schema, messages, rows, dictionary_columns, validated=False)


def _decoded(
    schema: bytes,
    messages: bytes | memoryview,
    rows: int,
    dictionary_columns: Sequence[tuple[int, int]],
    *,
    validated: bool,
) -> pa.RecordBatch:
    check_expanded(expanded_bytes(messages))
    try:
        own = read_schema(schema)
        if dictionary_columns:
            message = encode_schema(coded_schema(own, dictionary_columns))
        else:  # as it is, but without what is after it: that was not bounded
            message = pa.ipc.read_message(pa.py_buffer(schema)).serialize().to_pybytes()
        reader = pa.ipc.open_stream(pa.py_buffer(b"".join((message, messages))))
        batches = []
        found = size = 0
        while found <= rows:  # a stream that holds more than it says is not read to its end
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                break
            if validated:
                batch.validate(full=True)
                if any(map(begins_beyond, batch.columns)):
                    raise RowsUnreadable(f"the rows cannot be read: {BEYOND_ITS_ELEMENTS}")
            found += batch.num_rows
            if dictionary_columns:
                size += plain_bytes(batch, dictionary_columns)
                check_expanded(size)
                batch = plain(batch, own, dictionary_columns)
            batches.append(batch)
        if found != rows:
            raise RowsUnreadable(f"found rows: {found}, stated: {rows}")
        return one_batch(batches)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise RowsUnreadable(f"the rows cannot be read: {error}") from error
