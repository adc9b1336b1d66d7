"""Folder of bulk files, in the order of their disjoint key ranges.

Each ingest is one file, whatever its size, and its keys are above those of all files before it. So one lookup by name
finds the file of a key, and one table in memory its place. A file is removed when all of its keys are deleted; until
then the space of the deleted ones is released within it. The caller passes in the deleted keys: this folder does not
track them.

Threads: ``add`` from one, ``compact`` from one other, the reads from any.
"""

from __future__ import annotations

import logging
import os
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from errno import EIO, ESTALE
from pathlib import Path
from typing import Final

from forebay.broker.storage.failures import Cause, cause_of
from forebay.broker.storage.store.bulk import file as bulk_file
from forebay.broker.storage.store.bulk.file import BulkFile, Unreadable
from forebay.broker.storage.store.bulk.ranges import give_back
from forebay.broker.storage.store.bulk.remote import RemoteFiles
from forebay.broker.storage.store.bulk.writer import new_buffer
from forebay.broker.storage.store.contract import Value
from forebay.broker.storage.store.key_ranges import KeyRanges
from forebay.broker.storage.store.open_files import SpareFiles

_log: Final = logging.getLogger(__name__)
_SPARE_FILES: Final = 4
"""Descriptors kept for writing and reading files when the process has no other left."""


@dataclass(frozen=True, slots=True)
class _Named:
    """A file of the folder."""

    first: bytes
    last: bytes
    path: Path


@dataclass(slots=True)
class _Listing:
    """Immutable list of all files, replaced as a whole, so that readers need no lock."""

    files: list[_Named] = field(default_factory=list)
    lasts: list[bytes] = field(default_factory=list)

    def at(self, key: bytes) -> _Named | None:
        """Return the file whose range holds ``key``."""
        index = bisect_left(self.lasts, key)
        found = self.files[index] if index < len(self.files) else None
        return found if found is not None and found.first <= key else None

    def meeting(self, first: bytes, end: bytes) -> list[_Named]:
        """Return the files that may have keys in ``[first, end)``."""
        found: list[_Named] = []
        for index in range(bisect_left(self.lasts, first), len(self.files)):
            if self.files[index].first >= end:
                break
            found.append(self.files[index])
        return found

    def meets(self, first: bytes, end: bytes) -> bool:
        """Return whether a file may have keys in ``[first, end)``."""
        index = bisect_left(self.lasts, first)
        return index < len(self.files) and self.files[index].first < end


class BulkFiles:
    """Files in one folder, of which at most ``open_max`` are held open."""

    def __init__(self, folder: Path, *, open_max: int, remote: RemoteFiles | None = None) -> None:
        """List the names; no file is read. A file that a crash interrupted has a name like the others.

        ``remote`` are files that are not in the folder yet, and are listed too.
        """
        self._folder = folder
        self._remote = remote
        self._handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        """Handle of the folder: to sync its names, and to detect that another folder is in its place."""
        self._spare = SpareFiles(_SPARE_FILES)
        self._open_max = open_max
        self._buffer = new_buffer()
        self._lock = threading.Lock()  # guards the next two, and the order of changes to the listing
        self._open: OrderedDict[Path, BulkFile] = OrderedDict()
        self._given_back: dict[Path, set[bytes]] = {}
        """Keys whose space was released in files that still exist; not stored."""
        names = {path.name for path in folder.iterdir()} | set(remote.names if remote is not None else ())
        named = [(keys_of, folder / name) for name in names if (keys_of := bulk_file.keys_in_name(name))]
        self._listing = _listed([_Named(*keys, path) for keys, path in sorted(named)])

    @property
    def highest(self) -> bytes | None:
        """Highest key of all files, deleted or not."""
        lasts = self._listing.lasts
        return lasts[-1] if lasts else None

    @property
    def lasts(self) -> list[bytes]:
        """Last key of each file."""
        return list(self._listing.lasts)

    @property
    def paths(self) -> list[Path]:
        """All files, by rising keys."""
        return [named.path for named in self._listing.files]

    def add(self, items: Sequence[tuple[bytes, Value]]) -> None:
        """Write a file, durable on return.

        Raises ``OSError``; after one for a shortage there is no file, and the same items may be added again.
        """
        first, last = items[0][0], items[-1][0]
        path = self._folder / bulk_file.name_of(first, last)
        try:
            bulk_file.write(path, items, self._buffer)
        except OSError as error:
            if cause_of(error) is Cause.SHORTAGE:
                with suppress(FileNotFoundError):
                    path.unlink()
                self._lend()
            raise
        self._sync_names()
        with self._lock:
            self._listing = _listed([*self._listing.files, _Named(first, last, path)])
            self._spare.restore()

    def _sync_names(self) -> None:
        """Make the names of files durable. A failed sync is never retried."""
        try:
            os.fsync(self._handle)
        except OSError as error:
            raise OSError(EIO, f"names of files could not be synced: {error}", str(self._folder)) from error

    def _lend(self) -> None:
        """Release spare descriptors for the next open."""
        with self._lock:
            self._spare.lend()
            if self._open:
                self._open.popitem(last=False)

    def read(self, keys: Sequence[bytes], deleted: KeyRanges) -> list[bytes | None]:
        """Return the stored values in the order of ``keys``, None for a missing one. Raises ``OSError``."""
        found: list[bytes | None] = []
        for key in keys:
            opened = self._file_of(key, deleted)
            found.append(opened.read(key) if opened is not None else None)
        return found

    def prefetch(self, keys: Sequence[bytes], deleted: KeyRanges) -> None:
        """Start read-ahead of values without waiting; reads the table of a file that was not open.

        Read errors are left to the reads themselves. A remote file is fetched before others.
        """
        with suppress(OSError):
            for key in keys:
                opened = self._file_of(key, deleted, quietly=True)
                if opened is not None:
                    opened.prefetch(key)

    def is_remote(self, keys: Iterable[bytes]) -> bool:
        """Return whether the file of one of these keys is not in the folder yet. Cheap."""
        if self._remote is None or not self._remote.remote_bytes:
            return False
        found = map(self._listing.at, keys)
        return any(named is not None and self._is_remote(named) for named in found)

    def keys(
        self, first: bytes, end: bytes, deleted: KeyRanges, *, reverse: bool = False, here: bool = False
    ) -> Iterator[bytes]:
        """Yield the keys in ``[first, end)`` that are not deleted, in rising or falling order.

        A remote file is fetched first; with ``here`` its keys are left out.
        """
        files = self._listing.meeting(first, end)
        for named in reversed(files) if reverse else files:
            if here and self._is_remote(named):
                continue
            opened = self._opened(named)
            places = opened.places if opened is not None else {}
            for key in reversed(places) if reverse else places:
                if first <= key < end and key not in deleted:
                    yield key

    def compact(self, first: bytes, end: bytes, deleted: KeyRanges) -> OSError | None:
        """Release the space of deleted keys in ``[first, end)``; returns the error of an unreadable file.

        Raises ``OSError`` if a file could not be removed: it stays listed, for the next call.
        """
        gone: list[_Named] = []
        failure: OSError | None = None
        for named in self._listing.meeting(first, end):
            if not deleted.meets(named.first, named.last):
                continue
            try:
                if self._is_gone(named, first, end, deleted):
                    gone.append(named)
            except OSError as error:
                failure = error
        if gone:
            self._remove(gone)
        return failure

    def _is_gone(self, named: _Named, first: bytes, end: bytes, deleted: KeyRanges) -> bool:
        """Return True if all keys of a file are deleted; otherwise release the space of those that are."""
        if deleted.covers(named.first, named.last):  # also one whose write a crash interrupted
            return True
        if self._is_remote(named):
            return False  # its space is released when it arrives
        opened = self._opened(named)
        if opened is None:
            return False
        if all(key in deleted for key in opened.places):
            return True
        self._thin_out(named.path, opened, first, end, deleted)
        return False

    def arrived(self, path: Path, deleted: KeyRanges) -> None:
        """Release the space of deleted keys of a file that was remote. Raises ``OSError``."""
        first, last = bulk_file.keys_in_name(path.name) or (b"", b"")
        named = self._listing.at(last)
        if named is not None and deleted.meets(first, last) and (opened := self._opened(named)) is not None:
            self._thin_out(path, opened, first, last + b"\0", deleted)

    def needless(self, path: Path) -> None:
        """List a file no more that was remote, and of which no page is needed."""
        with self._lock:
            self._listing = _listed([named for named in self._listing.files if named.path != path])

    def sync_names(self) -> None:
        """Make the names of files durable. Raises ``OSError``."""
        self._sync_names()

    def remove_from(self, first: bytes) -> None:
        """Remove the files with no key below ``first``. Raises ``OSError``."""
        gone = [named for named in self._listing.files if named.first >= first]
        if gone:
            self._remove(gone)

    def meets(self, first: bytes, end: bytes) -> bool:
        """Return whether a file has, or may have, keys in ``[first, end)``."""
        return self._listing.meets(first, end)

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            self._open.clear()
            self._spare.close()
            handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    def _remove(self, gone: list[_Named]) -> None:
        if self._remote is not None:
            self._remote.forget(named.path.name for named in gone)
        paths = {named.path for named in gone}
        with self._lock:
            self._listing = _listed([named for named in self._listing.files if named.path not in paths])
            for path in paths:
                self._open.pop(path, None)
                self._given_back.pop(path, None)
        left: list[_Named] = []
        failure: OSError | None = None
        for named in gone:
            try:
                named.path.unlink(missing_ok=True)
            except OSError as error:
                left.append(named)
                failure = error
        if left:
            with self._lock:
                self._listing = _listed(sorted([*self._listing.files, *left], key=lambda named: named.first))
        self._sync_names()
        if failure is not None:
            raise failure

    def _thin_out(self, path: Path, opened: BulkFile, first: bytes, end: bytes, deleted: KeyRanges) -> None:
        with self._lock:
            done = self._given_back.setdefault(path, set())
        wanted = [key for key in opened.places if first <= key < end and key in deleted and key not in done]
        for begin, stop in _joined(opened.places[key] for key in wanted):
            if not give_back(opened.handle, begin, stop - begin):
                return  # the space is released with the file
        done.update(wanted)

    def _file_of(self, key: bytes, deleted: KeyRanges, *, quietly: bool = False) -> BulkFile | None:
        """Return the open file of a key; None if the key is deleted or in no file."""
        named = self._listing.at(key) if key not in deleted else None
        return self._opened(named, quietly=quietly) if named is not None else None

    def _is_remote(self, named: _Named) -> bool:
        return self._remote is not None and self._remote.has(named.path.name)

    def _opened(self, named: _Named, *, quietly: bool = False) -> BulkFile | None:
        """Return the open file; None if it is gone or unreadable, which is logged unless ``quietly``.

        A remote one is fetched first; ``quietly`` it is only asked for, and None.
        """
        with self._lock:
            found = self._open.get(named.path)
            if found is not None:
                self._open.move_to_end(named.path)
                return found
        if self._remote is not None and self._remote.has(named.path.name) and not named.path.exists():
            if quietly:
                self._remote.hurry(named.path.name)
                return None
            self._remote.fetch(named.path.name)
        try:
            found = self._open_file(named.path)
        except FileNotFoundError:
            self._check_folder()
            if self._is_listed(named) and not quietly:
                _log.error("bulk file is missing path=%s", named.path)
            return None
        except Unreadable as damage:
            if not quietly:
                _log.error("bulk file cannot be read cause=%s", damage)
            return None
        with self._lock:
            if self._is_listed(named):  # else it was removed meanwhile: its space is released with the last descriptor
                self._open[named.path] = found
            while len(self._open) > self._open_max:
                self._open.popitem(last=False)
        return found

    def _open_file(self, path: Path) -> BulkFile:
        try:
            return BulkFile(path)
        except OSError as error:
            if cause_of(error) is not Cause.SHORTAGE:
                raise
        self._lend()
        return BulkFile(path)

    def _is_listed(self, named: _Named) -> bool:
        return self._listing.at(named.last) is named

    def _check_folder(self) -> None:
        """Raise ``OSError`` if the folder itself is gone, as after an unmount: no file is lost then."""
        here, opened = os.stat(self._folder), os.fstat(self._handle)
        if (here.st_dev, here.st_ino) != (opened.st_dev, opened.st_ino):
            raise OSError(ESTALE, "another folder is in its place", str(self._folder))


def _listed(files: list[_Named]) -> _Listing:
    return _Listing(files, [named.last for named in files])


def _joined(places: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Places, in order, as ranges of the file; those that touch become one."""
    ranges: list[tuple[int, int]] = []
    for first, size in places:
        if ranges and ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], first + size)
        elif size:
            ranges.append((first, first + size))
    return ranges
