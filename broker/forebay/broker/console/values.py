"""Values of records for people: as JSON, as text, or as hexadecimal digits."""

from __future__ import annotations

import base64
import json
from typing import Final

from forebay.v1 import buffer_service_pb2 as pb

VIEWS: Final = ("json", "text", "hex")
"""Forms of a value; the first is the default."""

LINE: Final = 16
"""Bytes in a line of hexadecimal digits."""


def value_text(record: pb.PeekedRecord, view: str) -> str:
    """Return the value of a record in a form. A cut value ends with an ellipsis."""
    more = "…" if record.truncated else ""
    if view == "hex":
        return _hex(_bytes(record)) + more
    if view == "json" and record.format == "json" and not record.truncated:
        return json.dumps(json.loads(record.value), indent=2, ensure_ascii=False)
    return record.value + more


def _bytes(record: pb.PeekedRecord) -> bytes:
    if record.format != "base64":
        return record.value.encode()
    whole = len(record.value) // 4 * 4  # a value may be cut anywhere
    return base64.b64decode(record.value[:whole])


def _hex(content: bytes) -> str:
    lines = []
    for at in range(0, len(content), LINE):
        part = content[at : at + LINE]
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:06x}  {part.hex(' '):<{3 * LINE - 1}}  {plain}")
    return "\n".join(lines)
