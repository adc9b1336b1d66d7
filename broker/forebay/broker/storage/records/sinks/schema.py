"""Version of a sink's schema. It is written once and never changes, because stored rows name it.

A damaged version stays assigned, and its content is lost: its rows are reported as unreadable.
"""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.writes import PutSchema, SchemaRecord
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import Codec, Undecodable, opened, seal, text_of, unpack
from forebay.broker.storage.stored_sink import StoredSink

_LAYOUT: Final = struct.Struct(">qII")


def _encode(schema: SchemaRecord) -> bytes:
    text = schema.spark_schema.encode()
    return seal(_LAYOUT.pack(schema.registered_at_us, len(schema.arrow_schema), len(text)) + schema.arrow_schema + text)


def decode_schema(value: bytes, version: int = 0) -> SchemaRecord:
    """Return a stored version. Raises ``Undecodable``."""
    content = opened(value)
    registered_at_us, length, text = unpack(_LAYOUT, content)
    at = _LAYOUT.size + length
    if len(content) != at + text:
        raise Undecodable(f"{len(content)} bytes are not {at + text}")
    return SchemaRecord(version, registered_at_us, content[_LAYOUT.size : at], text_of(content[at:]))


class _Schemas(Kind[SchemaRecord]):
    def load(self, sink: StoredSink, key: bytes, value: bytes) -> None:
        _, version = self.parts(key)
        sink.schemas[version] = decode_schema(value, version)


SCHEMA: Final = _Schemas(
    name="schema",
    prefix=b"\x26",
    layout="sink u32, version u32",
    codec=Codec(_encode, decode_schema),
    lives="the sink's life",
    damaged="its version stays assigned, and its content is lost: rows of it are reported as unreadable",
    into=lambda sink: sink.schemas,
    puts=PutSchema,
)
