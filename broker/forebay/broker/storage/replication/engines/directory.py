"""Engine in a directory, one file per record: a second disk, or a file system of several machines.

A record is written under a temporary name, synced, and linked to its own name, which fails if that exists. The file
system must have atomic hard links, as local ones and NFS have; `probe` tests it.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from forebay.broker.storage.backup.directory_target import DirectoryTarget
from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.directory import make_directory
from forebay.broker.storage.permissions import DIRECTORY_MODE
from forebay.broker.storage.replication.batch import Piece
from forebay.broker.storage.replication.engine import NAME_DIGITS, EngineAway, EngineFull, name_of
from forebay.broker.storage.replication.record import HEADER_BYTES

TEMPORARY: Final = ".new-"
RACES: Final = "races"
FILES: Final = "files"
ABANDONED_S: Final = 3_600.0
"""Age from which a temporary file has no writer."""


class DirectoryEngine:
    """``Engine`` in a directory, which is created if it does not exist."""

    def __init__(self, directory: Path) -> None:
        """Raises ``OSError`` where it cannot be created."""
        (directory / RACES).mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        self._directory: Final = directory
        self.address: Final = f"file://{directory.absolute()}"
        for path in directory.glob(f"{TEMPORARY}*"):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > ABANDONED_S:
                    path.unlink()

    def create(self, position: int, pieces: Sequence[Piece]) -> bool:
        """See ``Engine.create``."""
        with _failing():
            return self._link(self._directory / name_of(position), pieces)

    def _link(self, path: Path, pieces: Sequence[Piece]) -> bool:
        temporary = self._draft(pieces)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
        self._sync(path.parent)
        return True

    def _draft(self, pieces: Sequence[Piece]) -> Path:
        temporary = self._directory / f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            with temporary.open("xb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with suppress(FileNotFoundError):
                temporary.unlink()
            raise
        return temporary

    def _sync(self, directory: Path) -> None:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        with _failing():
            try:
                return (self._directory / name_of(position)).read_bytes()
            except FileNotFoundError:
                self._directory.stat()  # it may be unmounted: then no record is missing
                return None

    def peek(self, position: int) -> bytes | None:
        """See ``Engine.peek``."""
        with _failing():
            try:
                with (self._directory / name_of(position)).open("rb") as file:
                    return file.read(HEADER_BYTES)
            except FileNotFoundError:
                self._directory.stat()
                return None

    def sizes(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """See ``Engine.sizes``."""
        found: list[tuple[int, int]] = []
        with _failing(), os.scandir(self._directory) as entries:
            for entry in entries:
                if len(entry.name) == NAME_DIGITS and first <= int(entry.name) < end:
                    with suppress(FileNotFoundError):
                        found.append((int(entry.name), entry.stat().st_size))
        yield from sorted(found)

    def replace(self, position: int, pieces: Sequence[Piece]) -> None:
        """See ``Engine.replace``."""
        with _failing():
            temporary = self._draft(pieces)
            temporary.replace(self._directory / name_of(position))
            self._sync(self._directory)

    def delete(self, positions: Sequence[int]) -> None:
        """See ``Engine.delete``."""
        with _failing():
            for position in positions:
                (self._directory / name_of(position)).unlink(missing_ok=True)
            self._sync(self._directory)

    def create_named(self, name: str, content: bytes) -> bool:
        """See ``Engine.create_named``."""
        with _failing():
            path = self._directory / name
            self._directory.stat()
            make_directory(path.parent)
            return self._link(path, (content,))

    def read_named(self, name: str) -> bytes | None:
        """See ``Engine.read_named``."""
        with _failing():
            try:
                return (self._directory / name).read_bytes()
            except FileNotFoundError:
                self._directory.stat()
                return None

    def files(self) -> Target:
        """See ``Engine.files``."""
        return DirectoryTarget(self._directory / FILES)

    def race(self, name: str) -> bool:
        """See ``Engine.race``."""
        with _failing():
            return self._link(self._directory / RACES / name, ())

    def end_races(self, names: Sequence[str]) -> None:
        """See ``Engine.end_races``."""
        with _failing():
            for name in names:
                (self._directory / RACES / name).unlink(missing_ok=True)


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = EngineFull if error.errno in {errno.ENOSPC, errno.EDQUOT} else EngineAway
        raise kind(str(error)) from error
