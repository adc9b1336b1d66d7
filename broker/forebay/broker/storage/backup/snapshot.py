"""Snapshot of a store between two group commits: its database, and the list of its bulk files.

    snapshot/      in the data directory, removed when the backup ends and by the next start
        RANDOM/    of one backup: a process that reads or inspects it may outlive a killed broker
            FORMAT, synced, db/    as in the data directory; tables are links, the rest are copies

Bulk files never change but for their release. The caller holds that back until they are copied.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from forebay.broker.storage.backup.errors import BackupError
from forebay.broker.storage.directory import SNAPSHOT
from forebay.broker.storage.formats import FORMAT
from forebay.broker.storage.permissions import DIRECTORY_MODE


@runtime_checkable
class SnapshotSource(Protocol):
    """Store that a snapshot can be taken of."""

    def flush(self) -> None:
        """Write out what is in memory, so that ``checkpoint`` has little left to write.

        Any thread; blocks for long. Raises ``StoreError``.
        """
        ...

    def remote_bytes(self) -> int:
        """Return the bytes of pages that are in a checkpoint only, and not in this store yet.

        While there are some, no snapshot can be taken. Any thread; cheap.
        """
        ...

    def checkpoint(self, into: Path) -> list[Path]:
        """Make the folders of a snapshot of this instant, and return the bulk files.

        Called where ``write`` is. Raises ``StoreError``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot that is not copied yet."""

    directory: Path
    bulk: tuple[Path, ...]
    taken_at_us: int

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield the path in the data directory, and the file, of everything but the bulk files."""
        for folder in (self.directory, self.directory / "db"):
            for path in sorted(folder.iterdir()):
                if path.is_file() and path.name not in {"LOCK", "LOG"} and not path.name.startswith("LOG."):
                    yield os.path.relpath(path, self.directory), path

    def link_bulk(self) -> None:
        """Link the bulk files into the snapshot, so that it can be opened as a whole."""
        folder = self.directory / "bulk"
        folder.mkdir(DIRECTORY_MODE)
        for path in self.bulk:
            with suppress(FileNotFoundError):  # all of it was deleted before the snapshot
                (folder / path.name).hardlink_to(path)

    def remove(self) -> None:
        """Delete the snapshot."""
        shutil.rmtree(self.directory, ignore_errors=True)
        with suppress(OSError):  # another one is left there, which the next start deletes
            self.directory.parent.rmdir()


def check_complete(source: SnapshotSource) -> None:
    """Raise ``BackupError`` for a store that has not all of its pages yet."""
    if size := source.remote_bytes():
        raise BackupError(
            f"{size} bytes of pages are still being read from the checkpoint that the broker started from; "
            "try again once the log says that all of them are here"
        )


def take_snapshot(source: SnapshotSource, directory: Path, at_us: int) -> Snapshot:
    """Take a snapshot into a data directory. Called where ``write`` is. Raises ``StoreError``."""
    check_complete(source)
    (directory / SNAPSHOT).mkdir(DIRECTORY_MODE, exist_ok=True)
    into = directory / SNAPSHOT / secrets.token_hex(4)
    into.mkdir(DIRECTORY_MODE)
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, into, ignore_errors=True)  # its links would keep deleted tables on the disk
        (into / "FORMAT").write_text(f"{FORMAT}\n", encoding="ascii")
        taken = Snapshot(into, tuple(source.checkpoint(into)), at_us)
        undo.pop_all()
    return taken
