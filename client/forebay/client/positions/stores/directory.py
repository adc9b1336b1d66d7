"""Store in a local directory: ``file:///var/lib/app/positions``.

One file per key, replaced by an atomic rename after its content is synced; then the folder is synced. The version is
the SHA-256 of the content. A lock file serializes the writers of a directory, so its file system must support
`flock`: a local one does.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from forebay.client.errors import PositionConflict, PositionStoreError, PositionStoreUnavailable
from forebay.client.positions.store import StoreContext, Versioned, redacted
from forebay.client.settings import invalid_setting

LOCK: Final = ".lock"
NEW: Final = ".new"
"""Suffix of a file that is not renamed yet. A crash may leave one; the next write replaces it."""

LOCK_WAIT_S: Final = 0.01
"""Time between two attempts to acquire the lock."""

_REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EISDIR})


class DirectoryPositions:
    """Documents as files below a folder."""

    def __init__(self, folder: Path, rw_timeout_s: float) -> None:
        self._folder = folder
        self._rw_timeout_s = rw_timeout_s
        with self._failures():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read(self, key: str) -> Versioned | None:
        """See ``PositionStore``."""
        with self._failures():
            return self._read(self._folder / key)

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        """See ``PositionStore``."""
        path = self._folder / key
        with self._failures(), self._lock():
            found = self._read(path)
            if (found.version if found is not None else None) != expected:
                raise PositionConflict(f"the position {key} was written concurrently", facts={"key": key})
            self._make_folders(path.parent)
            new = path.with_name(path.name + NEW)
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(document)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
            _sync(path.parent)
            return _version(document)

    def delete(self, key: str) -> None:
        """See ``PositionStore``."""
        path = self._folder / key
        with self._failures(), self._lock(), contextlib.suppress(FileNotFoundError):
            path.unlink()
            _sync(path.parent)

    def list(self, prefix: str) -> Iterator[str]:
        """See ``PositionStore``."""
        with self._failures():
            found = (path.relative_to(self._folder).as_posix() for path in self._folder.rglob("*") if path.is_file())
            keys = sorted(key for key in found if key != LOCK and not key.endswith(NEW) and key.startswith(prefix))
        return iter(keys)

    def close(self) -> None:
        """See ``PositionStore``."""

    def _read(self, path: Path) -> Versioned | None:
        try:
            document = path.read_bytes()
        except FileNotFoundError:
            return None
        return Versioned(document, _version(document))

    def _make_folders(self, folder: Path) -> None:
        """Create a folder and those above it, durably."""
        missing = []
        while not folder.exists():
            missing.append(folder)
            folder = folder.parent
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)
            _sync(one.parent)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the lock of the directory. Raises ``PositionStoreUnavailable`` after the time limit."""
        ends_at = time.monotonic() + self._rw_timeout_s
        with open(os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600), "rb") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if time.monotonic() >= ends_at:
                        raise PositionStoreUnavailable(
                            f"the lock of {self._folder} was held by another process for {self._rw_timeout_s:g} s"
                        ) from error
                    time.sleep(LOCK_WAIT_S)
            yield

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = PositionStoreError if error.errno in _REFUSED else PositionStoreUnavailable
            raise kind(f"the position store {self._folder}: {error.strerror}") from error


def _version(document: bytes) -> str:
    return hashlib.sha256(document).hexdigest()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_store(context: StoreContext) -> DirectoryPositions:
    """Return the store of a directory; creates it."""
    url = context.url
    if url.netloc not in ("", "localhost") or not url.path.startswith("/"):
        raise invalid_setting("store", redacted(url), "file:///PATH with an absolute path")
    return DirectoryPositions(Path(unquote(url.path)), context.rw_timeout_s)
