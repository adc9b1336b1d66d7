"""Archives of data directories and backups, as a version of Forebay wrote them.

    python -m tests.support.storage.stored_directory

writes `tests/contract/directories/format-N.tar.xz` for the format of this version. An archive is written once per
format and kept: every later version has to open it.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from forebay.broker.storage.formats import FORMAT
from tests.support.storage.backed_up import BackedUp

ARCHIVES: Final = Path(__file__).resolve().parents[2] / "contract" / "directories"
DATA: Final = "data"
TARGET: Final = "target"


def write(folder: Path) -> Path:
    """Write the archive of this version; returns its path."""
    archive = ARCHIVES / f"format-{FORMAT}.tar.xz"
    if archive.exists():
        sys.exit(f"{archive} exists: archives are kept as they were written")
    kept = BackedUp(folder)
    kept.back_up()
    kept.store.close()
    ARCHIVES.mkdir(exist_ok=True)
    with tarfile.open(archive, "w:xz") as packed:
        for name in (DATA, TARGET):
            packed.add(folder / name, name)
    return archive


def unpack(archive: Path, folder: Path) -> None:
    """Write the directories of an archive into a folder."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(write(Path(name)))
