"""Document of one line of JSON, and a line with its CRC-32 in hexadecimal.

Manifests and marks of checkpoints, the list of remote files, and the index of a topic are such documents.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any


def encode_line(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of a document."""
    line = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    return b"%b\n%08x\n" % (line, zlib.crc32(line))


def decode_line(content: bytes) -> dict[str, Any] | None:
    """Return a document, None if it is damaged."""
    line, _, trailer = content.partition(b"\n")
    if trailer.strip() != b"%08x" % zlib.crc32(line):
        return None
    found: dict[str, Any] = json.loads(line)
    return found
