"""Pages of records and of rows: good ones, ones that contradict themselves, and ones that are damaged."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Final, Literal

import pyarrow as pa

from forebay.arrow import coded, encode_batches, encode_schema
from forebay.client import EncodedPage, Encoding
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from tests.fuzz.chance import ODD_TEXTS, UNSIGNED, Chance

SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("list", pa.list_(pa.struct([("x", pa.float64()), ("y", pa.binary())]))),
    ]
)
ROWS: Final = 20
_TIMES: Final = (
    0,
    1,
    -1,
    1_700_000_000_000_000,
    -62_135_596_800_000_000,
    253_402_300_799_999_999,
    -(1 << 63),
    (1 << 63) - 1,
)
_NO_KEY: Final = 0xFFFF_FFFF


def page(chance: Chance, sequence: int | None = None) -> pb.PublishPage:
    """Return a page, most often one that a broker takes."""
    rows = chance.once_in(3)
    body, count = _rows(chance) if rows else _records(chance)
    if chance.once_in(8):
        body = _damaged(chance, body)
    made = pb.PublishPage(
        partition=chance.one(0, 0, 0, 0, 1, 2, (1 << 32) - 1),
        sequence=chance.one(*UNSIGNED) if sequence is None else sequence,
        record_count=chance.one(0, 1, 65_536, 65_537, (1 << 32) - 1) if chance.once_in(12) else count,
        crc32=chance.random.getrandbits(32) if chance.once_in(20) else zlib.crc32(body),
        body=body,
        traceparent=chance.text("traceparent"),
    )
    # An encoding that no reader knows is a number like any other on the wire.
    encoding = chance.one(0, 1, 2, 7) if chance.once_in(15) else 2 if rows else 1
    made.MergeFromString(b"\x18" + bytes([encoding]))
    return made


def readable_page() -> EncodedPage:
    """Return a page of rows of the first version of the schema, as a publisher takes it."""
    return EncodedPage(_good_rows()[0], ROWS, Encoding.ARROW)


def rows(chance: Chance) -> bytes:
    """Return the body of a page of rows, damaged most often."""
    body, _ = _rows(chance)
    return body if chance.once_in(6) else _damaged(chance, body)


def _records(chance: Chance) -> tuple[bytes, int]:
    count = chance.one(1, 1, 2, 3, 10, 300)
    values = [chance.random.randbytes(chance.one(0, 1, 8, 40)) for _ in range(count)]
    if chance.once_in(10):
        values[0] = chance.one(b"[" * 70_000, b"\xff" * 70_000, b"{}", b"\x00" * 900_000)
    run = record_pb2.RecordRun(value_lengths=map(len, values), values=b"".join(values))
    if chance.once_in(3):
        lengths = [chance.one(0, 3, _NO_KEY) for _ in values]
        run.key_lengths.extend(lengths)
        run.keys = b"k" * sum(length for length in lengths if length != _NO_KEY)
    if chance.once_in(3):
        run.event_times_us.extend(chance.one(*_TIMES[:6] if chance.once_in(1.1) else _TIMES) for _ in values)
    if chance.once_in(3):
        run.headers.extend(_headers(chance) for _ in values)
    if chance.once_in(10):
        chance.one(run.value_lengths, run.key_lengths, run.event_times_us).append(chance.one(0, 1, 7))
    runs = chance.one(1, 1, 1, 2, 3)
    return record_pb2.RecordPage(runs=[run] * runs).SerializeToString(), count * runs


def _headers(chance: Chance) -> record_pb2.Headers:
    count = chance.one(64, 65, 5_000) if chance.once_in(100) else chance.one(0, 1, 2)
    entries = [
        record_pb2.Header(key=chance.one(*ODD_TEXTS[:7]), value=chance.random.randbytes(5)) for _ in range(count)
    ]
    return record_pb2.Headers(entries=entries)


def _rows(chance: Chance) -> tuple[bytes, int]:
    return chance.one(*_good_rows()), ROWS


@cache
def _good_rows() -> tuple[bytes, ...]:
    """Bodies of pages of the schema, plain and compressed, with and without a dictionary, and one that grows."""
    batch = pa.record_batch(
        [
            list(range(ROWS)),
            [('text \x01"\\', "é", None)[number % 3] for number in range(ROWS)],
            [[{"x": float(number), "y": b"\xff"}] * (number % 3) for number in range(ROWS)],
        ],
        schema=SCHEMA,
    )
    large = pa.record_batch([list(range(ROWS)), ["\x01" * (1 << 20)] * ROWS, [None] * ROWS], schema=SCHEMA)
    rows, places = coded(batch, ["text"], auto=False)
    columns = [record_pb2.DictionaryColumn(column=place, index_bytes=width) for place, width in places]
    kinds: list[tuple[pa.RecordBatch, Literal["none", "lz4", "zstd"]]] = [
        *((batch, kind) for kind in ("none", "lz4", "zstd")),
        (large, "zstd"),
    ]
    plain = [
        record_pb2.ArrowPage(schema_version=1, rows=ROWS, messages=encode_batches([each], compression))
        for each, compression in kinds
    ]
    with_dictionary = record_pb2.ArrowPage(
        schema_version=1, rows=ROWS, dictionary_messages=encode_batches([rows], "zstd"), dictionary_columns=columns
    )
    return tuple(each.SerializeToString() for each in (*plain, with_dictionary))


def _damaged(chance: Chance, body: bytes) -> bytes:
    if chance.once_in(6):
        return body[: chance.random.randrange(len(body) + 1)]
    found = bytearray(body)
    for _ in range(chance.one(1, 2, 8)):
        found[chance.random.randrange(len(found))] = chance.random.randrange(256)
    return bytes(found)


def schema() -> bytes:
    """Return the schema of the rows, as a message."""
    return encode_schema(SCHEMA)
