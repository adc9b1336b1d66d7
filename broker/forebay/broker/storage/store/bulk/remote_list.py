"""List of the remote files of a directory: bulk files that are in a checkpoint, and not here yet.

    remote   the bytes of each file by its name, see ``records.json_line``

A listed file that is in the folder is complete, whatever the list says: it is changed only before a file is removed,
which would otherwise count as remote again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from forebay.broker.storage.directory import write_durably
from forebay.broker.storage.errors import StoreCorrupt
from forebay.broker.storage.records.json_line import decode_line, encode_line

NAME: Final = "remote"


def write_list(directory: Path, sizes: Mapping[str, int]) -> None:
    """Replace the list of a directory, durably: bytes by the names of the files. Raises ``OSError``."""
    write_durably(directory / NAME, encode_line(sizes))


def read_list(directory: Path) -> dict[str, int]:
    """Return the list of a directory.

    Raises ``StoreCorrupt`` where it is damaged or missing, and ``OSError``.
    """
    try:
        content = (directory / NAME).read_bytes()
    except FileNotFoundError:
        raise StoreCorrupt(None, "its list of remote files is missing", directory=directory) from None
    found = decode_line(content)
    if found is None:
        raise StoreCorrupt(None, "its list of remote files is damaged", directory=directory)
    return found
