"""List of the remote files of a directory: bulk files that are in a checkpoint, and not here yet.

    remote   one line of JSON, the bytes of each file by its name, and a line with its CRC-32 in hexadecimal

A listed file that is in the folder is complete, whatever the list says: it is changed only before a file is removed,
which would otherwise count as remote again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from forebay.broker.storage.directory import write_durably
from forebay.broker.storage.errors import StoreCorrupt

NAME: Final = "remote"


def write_list(directory: Path, sizes: Mapping[str, int]) -> None:
    """Replace the list of a directory, durably: bytes by the names of the files. Raises ``OSError``."""
    line = json.dumps(sizes, separators=(",", ":"), sort_keys=True).encode()
    write_durably(directory / NAME, b"%b\n%08x\n" % (line, zlib.crc32(line)))


def read_list(directory: Path) -> dict[str, int]:
    """Return the list of a directory.

    Raises ``StoreCorrupt`` where it is damaged or missing, and ``OSError``.
    """
    try:
        content = (directory / NAME).read_bytes()
    except FileNotFoundError:
        raise StoreCorrupt(None, "its list of remote files is missing", directory=directory) from None
    line, _, trailer = content.partition(b"\n")
    if trailer.strip() != b"%08x" % zlib.crc32(line):
        raise StoreCorrupt(None, "its list of remote files is damaged", directory=directory)
    found: dict[str, int] = json.loads(line)
    return found
