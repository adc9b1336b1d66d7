"""Files of a backup or a checkpoint: several at once are read from the target and written.

A request to an object store takes a round trip, and one stream of it is slower than the network and the disk.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

from forebay.broker.storage.backup.directory_target import DirectoryTarget
from forebay.broker.storage.backup.errors import TargetFailed
from forebay.broker.storage.backup.manifest import Piece
from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.directory import make_directory
from forebay.broker.storage.permissions import FILE_MODE
from forebay.page.crc32 import crc32
from forebay.state.numbers import plural

MISSING: Final = "is missing"


class Files:
    """Writer of the files of one backup. Its methods are for one thread."""

    def __init__(
        self,
        target: Target,
        *,
        on_damage: Callable[[Piece, str], None],
        on_part: Callable[[int], None] = lambda _: None,
        is_wanted: Callable[[Piece, Path], bool] = lambda *_: True,
    ) -> None:
        """Nothing is read yet.

        ``on_damage`` takes a file that is missing or damaged, and how, ``on_part`` the bytes of each part that was
        read, and ``is_wanted`` is asked before each file. Several threads call them; what they raise ends `write`.
        """
        self._target: Final = target
        self._on_damage: Final = on_damage
        self._on_part: Final = on_part
        self._is_wanted: Final = is_wanted
        self._directories: Final[dict[tuple[int, Path], DirectoryTarget]] = {}
        """Directories by thread and path: each writes one file at a time."""
        self._failed = False
        """True once a file has failed: no further one is begun."""

    def write(self, pieces: Iterable[tuple[Piece, Path]]) -> None:
        """Write files below their directories. A missing file is not written, a damaged one is.

        Raises the first failure, ``TargetFailed`` or another one, once no file is being written any more.
        """
        pool = ThreadPoolExecutor(self._target.reads_at_once, thread_name_prefix="forebay-files")
        try:
            begun = [pool.submit(self._write, piece, folder) for piece, folder in pieces]
            wait(begun, return_when=FIRST_EXCEPTION)
            for each in begun:
                if each.done():
                    each.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def sync(self) -> None:
        """Make the names of the files durable."""
        for directory in self._directories.values():
            directory.sync()

    def _write(self, piece: Piece, folder: Path) -> None:
        if self._failed:
            return
        try:
            self._write_wanted(piece, folder)
        except BaseException:
            self._failed = True
            raise

    def _write_wanted(self, piece: Piece, folder: Path) -> None:
        if not self._is_wanted(piece, folder):
            return
        place = threading.get_ident(), folder
        found = self._directories.get(place)
        if found is None:
            found = self._directories[place] = DirectoryTarget(folder, role="directory")
        if problem := _fetched(self._target, piece, found, self._on_part):
            self._on_damage(piece, problem)


def _fetched(target: Target, piece: Piece, files: DirectoryTarget, on_part: Callable[[int], None]) -> str:
    """Write a file; returns its damage, empty if there is none."""
    reading = _Reading(target, piece, on_part)
    try:
        if piece.extents is None:
            files.put(piece.path, reading.chunks())
        else:
            _write_sparse(files.directory / piece.path, piece, reading.chunks())
    except FileNotFoundError:
        return MISSING
    return reading.problem()


class _Reading:
    """Bytes of a piece, summed up while they are read."""

    def __init__(self, target: Target, piece: Piece, on_part: Callable[[int], None]) -> None:
        self._target = target
        self._piece = piece
        self._on_part = on_part
        self._size = 0
        self._crc32 = 0
        self._unreadable = ""

    def chunks(self) -> Iterator[bytes]:
        """Yield the stored bytes, up to a sector that cannot be read."""
        try:
            for chunk in self._target.get(self._piece.name):
                self._size += len(chunk)
                self._crc32 = crc32(chunk, self._crc32)
                yield chunk
                self._on_part(len(chunk))
        except TargetFailed as failed:
            if not isinstance(failed.__cause__, OSError) or failed.__cause__.errno != errno.EIO:
                raise
            self._unreadable = f"cannot be read from byte {self._size} on: {failed.__cause__.strerror}"

    def problem(self) -> str:
        """Return the difference from the manifest, empty if there is none."""
        if self._unreadable:
            return self._unreadable
        if self._size != self._piece.stored_bytes:
            return f"has {self._size} {plural(self._size, 'byte')} instead of {self._piece.stored_bytes}"
        return "" if self._crc32 == self._piece.crc32 else "has other bytes than its checksum says"


def _write_sparse(path: Path, piece: Piece, chunks: Iterable[bytes]) -> None:
    """Write a file with holes."""
    assert piece.extents is not None
    make_directory(path.parent)
    waiting = memoryview(b"")
    source = iter(chunks)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        os.ftruncate(handle, piece.size)
        for first, length in piece.extents:
            at, end = first, first + length
            while at < end:
                waiting = waiting or memoryview(next(source, b""))
                if not waiting:
                    break  # it ends early, which its checksum shows
                written = os.pwrite(handle, waiting[: end - at], at)
                waiting, at = waiting[written:], at + written
        for _ in source:
            pass  # what is too much is counted
        os.fsync(handle)
    finally:
        os.close(handle)
