"""Result of the last `verify` of a data directory: the file `verified` in it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from forebay.broker.core.last_check import LastCheck
from forebay.broker.storage.directory import write_durably

FILE: Final = "verified"
BYTES_MAX: Final = 4_096
"""Size above which a file is not one that was written here."""


def save(directory: Path, check: LastCheck) -> None:
    """Replace the result. Raises ``OSError``, such as for a directory that is read-only."""
    write_durably(directory / FILE, json.dumps(asdict(check)).encode())


def last(directory: Path) -> LastCheck | None:
    """Return the result; None if the directory was never verified, or if the file is damaged."""
    try:
        with (directory / FILE).open("rb") as file:
            found = json.loads(file.read(BYTES_MAX))
        check = LastCheck(**found)
    except (OSError, ValueError, TypeError):
        return None
    return check if all(type(value) is int for value in asdict(check).values()) else None
