"""The file that tells a process with ``failing.c`` preloaded which calls fail, and how far its clock is shifted."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("failing.c")
FIELDS: Final = ("shift_s", "kind", "error", "countdown", "left", "hits", "seen")
KINDS: Final = {"open": 1, "read": 2, "write": 3, "sync": 4, "rename": 5, "size": 6, "space": 7}


def built(folder: Path) -> Path | None:
    """Return the library, made in a folder; ``None`` where there is no gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    library = folder / "failing.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return library


class Control:
    """Shared memory with processes that were started with its environment."""

    def __init__(self, path: Path, directory: Path, library: Path) -> None:
        path.write_bytes(bytes(8 * len(FIELDS)))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 8 * len(FIELDS))
        self.environment: Final = {
            "LD_PRELOAD": str(library),
            "FAILING_CONTROL": str(path),
            "FAILING_DIRECTORY": str(directory),
        }

    def _set(self, field: str, value: int) -> None:
        struct.pack_into("q", self._shared, 8 * FIELDS.index(field), value)

    def get(self, field: str) -> int:
        """Return a number."""
        value: int = struct.unpack_from("q", self._shared, 8 * FIELDS.index(field))[0]
        return value

    def shift(self, seconds: int) -> None:
        """Shift the wall clock by so much from the true one."""
        self._set("shift_s", seconds)

    def fail(self, kind: str, error: int, nth: int, times: int) -> None:
        """Let the n-th call of a kind from now, and those after it, so many, fail."""
        self._set("kind", 0)
        for field, value in (("error", error), ("countdown", nth), ("left", times), ("hits", 0), ("seen", 0)):
            self._set(field, value)
        self._set("kind", KINDS[kind])

    def lift(self) -> int:
        """Let nothing fail any more; returns how many calls did."""
        self._set("kind", 0)
        return self.get("hits")
