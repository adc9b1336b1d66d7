"""Target in a directory: each name is a file below it.

A file is written past the page cache under a draft name, synced and renamed, so a name has all of its bytes or does not
exist. The names of directories are synced together, before the manifest and after it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from forebay.broker.storage.backup.errors import TargetFailed, TargetMissing
from forebay.broker.storage.backup.target import CHUNK_BYTES
from forebay.broker.storage.directory import make_directory, sync_path
from forebay.broker.storage.store.bulk.writer import BLOCK_BYTES, FileWriter, new_buffer

_DRAFT: Final = ".draft"


def _ignore() -> None:
    """Allow each change."""


class DirectoryTarget:
    """A ``Target``."""

    reads_at_once: Final = 4

    def __init__(self, directory: Path, check: Callable[[], None] = _ignore, *, role: str = "backup target") -> None:
        """Nothing is read or written yet.

        ``check`` is called before each change and raises ``OSError`` where the directory may not be changed, as one
        that is on no mount any more. ``role`` is what errors call the directory.
        """
        self.directory: Final = directory
        self._check = check
        self._role: Final = role
        self._changed: set[Path] = set()
        self._buffer = new_buffer()

    def check_exists(self) -> None:
        """Raise ``TargetMissing`` if the directory does not exist."""
        with self._failing():
            try:
                self.directory.stat()
            except FileNotFoundError as error:
                raise TargetMissing(
                    f"{self._role} {self.directory.absolute()}: the directory does not exist; check the path, and that "
                    "its file system is mounted",
                    str(self.directory),
                ) from error

    def names(self, prefix: str = "") -> Iterator[str]:
        """See ``Target.names``."""
        with self._failing():
            for folder, _, files in os.walk(self.directory / prefix.rpartition("/")[0], onerror=_unless_missing):
                for name in files:
                    found = os.path.relpath(os.path.join(folder, name), self.directory)
                    if found.startswith(prefix) and not found.endswith(_DRAFT):
                        yield found

    def put(self, name: str, chunks: Iterable[bytes | memoryview]) -> None:
        """See ``Target.put``."""
        path = self.directory / name
        draft = path.with_name(path.name + _DRAFT)
        with self._failing():
            self._check()
            self._make(path.parent)
            draft.unlink(missing_ok=True)
            try:
                self._write(draft, chunks)
                draft.replace(path)
            except BaseException:
                with suppress(OSError):
                    draft.unlink()
                raise
            self._changed.add(path.parent)

    def _write(self, draft: Path, chunks: Iterable[bytes | memoryview]) -> None:
        size = 0
        with FileWriter(draft, self._buffer) as writing:
            for chunk in chunks:
                size += len(chunk)
                writing.add(chunk)
            padding = -size % BLOCK_BYTES
            writing.add(bytes(padding))
            writing.finish()
        self._check()
        if padding:
            handle = os.open(draft, os.O_WRONLY)
            try:
                os.ftruncate(handle, size)
                os.fdatasync(handle)
            finally:
                os.close(handle)

    def get(self, name: str) -> Iterator[bytes]:
        """See ``Target.get``."""
        with self._failing(), (self.directory / name).open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def delete(self, names: Iterable[str]) -> None:
        """See ``Target.delete``. Empty directories are deleted too."""
        with self._failing():
            for name in names:
                self._check()
                path = self.directory / name
                path.unlink(missing_ok=True)
                for parent in path.parents:
                    if parent == self.directory or not _removed(parent):
                        break
                    self._changed.discard(parent)
            if self.directory.is_dir():
                sync_path(self.directory)

    def sync(self) -> None:
        """See ``Target.sync``: files are durable already, their names are not."""
        with self._failing():
            self._check()
            for folder in self._changed:
                sync_path(folder)
            self._changed.clear()

    def _make(self, folder: Path) -> None:
        if not folder.is_dir():
            make_directory(folder)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Name the target in errors of the file system."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise TargetFailed(f"{self._role} {self.directory}: {error}") from error


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True
