"""Pages made by hand, for what no good publisher sends."""

from __future__ import annotations

import zlib
from typing import Any

from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2


def body(*values: bytes, **columns: Any) -> bytes:
    """Values, and columns that may be wrong, as the body of a page."""
    run = record_pb2.RecordRun(value_lengths=[len(value) for value in values], values=b"".join(values), **columns)
    return record_pb2.RecordPage(runs=[run]).SerializeToString()


def page(data: bytes, *, records: int = 1, crc32: int | None = None, **fields: Any) -> pb.PublishRequest:
    """A page with whatever is wrong about it."""
    given = {"encoding": record_pb2.ENCODING_RECORDS, "record_count": records, **fields}
    crc = zlib.crc32(data) if crc32 is None else crc32
    return pb.PublishRequest(page=pb.PublishPage(body=data, crc32=crc, **given))
