"""Remote files: bulk files that a checkpoint has, and this directory has not yet.

A broker that was loaded from a checkpoint serves before it has the pages. Threads of this class fetch the files one
after the other, the oldest first; a reader that needs one fetches it at once. A file gets its name when all of it is
there. What is interrupted is fetched again by the next start.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Final, Protocol

from forebay.broker.storage.errors import StoreUnreadable
from forebay.broker.storage.store.bulk.remote_list import write_list
from forebay.broker.storage.store.contract import Family

_log: Final = logging.getLogger(__name__)
LOADING: Final = "loading"
"""Folder of the directory with files that are being written; removed once all are there."""
KEPT: Final = "kept"
"""Folder in it with files of before, each of which may have the bytes that are fetched."""
THREADS: Final = 2
"""Files that are fetched at once without a reader that waits: beside them the broker serves."""
RETRY_S: Final = 1.0
"""Pause of a thread after a failure; after each further one it doubles."""
RETRY_MAX_S: Final = 60.0


class RemoteNotYet(StoreUnreadable):
    """The directory has not enough of the journal yet to tell which pages of the file are needed.

    It is no failure: retry later.
    """


class RemoteSource(Protocol):
    """Place that has the remote files. Any thread."""

    def fetch(self, name: str, folder: Path, stop: threading.Event) -> Path | None:
        """Write a file anywhere below ``folder``, durably, and return its path.

        Returns None for a file of which no page is needed any more. Raises ``StoreUnreadable``, also soon after
        ``stop`` is set.
        """
        ...


class RemoteFiles:
    """Remote files of one directory. Any thread."""

    def __init__(
        self,
        directory: Path,
        source: RemoteSource,
        listed: Mapping[str, int],
        *,
        on_arrival: Callable[[Path], None],
        on_needless: Callable[[Path], None],
        on_complete: Callable[[], None],
    ) -> None:
        """``listed`` is the list of the directory. No file is fetched before ``start`` or ``fetch``.

        ``on_arrival`` is called with each file that has arrived, before it counts as local, and ``on_needless`` with
        each of which no page is needed any more; ``on_complete`` once no file is remote any more.
        """
        self._directory: Final = directory
        self._bulk: Final = directory / "bulk"
        self._folder: Final = directory / LOADING
        self._source: Final = source
        self._on_arrival: Final = on_arrival
        self._on_needless: Final = on_needless
        self._on_complete: Final = on_complete
        self._listed = dict(listed)
        """Files of the list on disk."""
        self._changed: Final = threading.Condition()
        """Guards everything below."""
        self._left: Final = {name: size for name, size in sorted(listed.items()) if not (self._bulk / name).exists()}
        """Bytes of the remote files by name, which stays until the file is there, or gone."""
        self._order: Final = dict.fromkeys(self._left)
        """Remote files in the order in which they are fetched: the oldest first, those that have failed last."""
        self._wanted: Final[dict[str, None]] = {}
        """Files that are needed soon."""
        self._running: Final[set[str]] = set()
        """Files that are being fetched."""
        self._stop: Final = threading.Event()
        self._threads: list[threading.Thread] = []
        self._bytes = sum(self._left.values())
        self._kept: Final = {name: size for name, size in self._left.items() if (self._folder / KEPT / name).exists()}
        """Bytes of remote files that take their space already."""
        self._kept_bytes = sum(self._kept.values())
        self._causes: Final[dict[str, str]] = {}
        """Causes why files could not be fetched, until they are."""
        self._logged = ""
        """Last cause that was logged."""

    @property
    def names(self) -> list[str]:
        """Names of the remote files."""
        with self._changed:
            return list(self._left)

    @property
    def remote_bytes(self) -> int:
        """Bytes of the remote files."""
        return self._bytes

    @property
    def space_bytes(self) -> int:
        """Bytes that the remote files will take beyond what the directory takes now."""
        return max(0, self._bytes - self._kept_bytes)

    def start(self) -> None:
        """Begin to fetch all files."""
        with self._changed:
            if not self._left:
                self._on_complete()
                return
        _log.info("reading pages of a checkpoint files=%d bytes=%d", len(self._left), self._bytes)
        self._threads = [
            threading.Thread(target=self._run, name=f"forebay-fetch-{number}", daemon=True) for number in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def has(self, name: str) -> bool:
        """Return whether a file is remote. Cheap."""
        return name in self._left

    def hurry(self, name: str) -> None:
        """Fetch a file before those that are not needed soon."""
        with self._changed:
            if name in self._left:
                self._wanted[name] = None

    def fetch(self, name: str) -> None:
        """Return once a file is local, or not needed any more. Raises ``StoreUnreadable``."""
        with self._changed:
            if was_running := name in self._running:
                self._changed.wait_for(lambda: name not in self._running)
            if name not in self._left:
                return
            if self._stop.is_set():
                raise StoreUnreadable("the broker is stopping", family=Family.BULK)
            if was_running:  # its failure is that of all who have waited for it
                raise StoreUnreadable(self._causes.get(name, "the file could not be read"), family=Family.BULK)
            self._running.add(name)
        self._fetch(name)

    def forget(self, names: Iterable[str]) -> None:
        """Take files off the list, durably: they are about to be removed. Raises ``OSError``."""
        with self._changed:
            gone = self._listed.keys() & set(names)
            if not gone:
                return
            left = {name: size for name, size in self._left.items() if name not in gone}
            write_list(self._directory, left)
            self._listed = left
            for name in gone & self._left.keys():
                self._pop(name)

    def stop(self) -> None:
        """Let what is being fetched end soon, and what waits for it fail. Cheap."""
        self._stop.set()

    def close(self) -> None:
        """End what is being fetched."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        pause_s = RETRY_S
        while (name := self._next()) is not None:
            try:
                self._fetch(name)
                pause_s = RETRY_S
            except StoreUnreadable:
                self._stop.wait(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)

    def _next(self) -> str | None:
        """Return the next file to fetch; None once there is none, or at the end."""
        with self._changed:
            while self._left and not self._stop.is_set():
                for name in chain(self._wanted, self._order):
                    if name not in self._running:
                        self._running.add(name)
                        return name
                self._changed.wait()  # the last ones are being fetched, and may fail
            return None

    def _fetch(self, name: str) -> None:
        """Fetch a file that is noted as running."""
        try:
            self._take(name, self._source.fetch(name, self._folder, self._stop))
        except (OSError, StoreUnreadable) as error:
            if not self.has(name):
                return  # it was removed meanwhile, and perhaps the folder with it
            cause = error.reason if isinstance(error, StoreUnreadable) else f"it could not be written: {error}"
            self._note(name, cause, is_failure=not isinstance(error, RemoteNotYet))
            raise StoreUnreadable(cause, family=Family.BULK) from error
        finally:
            with self._changed:
                self._running.discard(name)
                self._changed.notify_all()

    def _take(self, name: str, found: Path | None) -> None:
        """Give a file that was written its name, unless it was removed meanwhile."""
        path = self._bulk / name
        with self._changed:
            if name not in self._left:
                if found is not None:
                    found.unlink()
                return
            if found is not None:
                found.rename(path)
        if found is not None:
            self._on_arrival(path)
        else:
            self._on_needless(path)
        with self._changed:
            self._logged = ""
            if name in self._left:
                self._pop(name)

    def _pop(self, name: str) -> None:
        """Count a file as remote no more."""
        self._bytes -= self._left.pop(name)
        self._kept_bytes -= self._kept.pop(name, 0)
        self._order.pop(name)
        self._wanted.pop(name, None)
        self._causes.pop(name, None)
        self._changed.notify_all()
        if not self._left:
            self._on_complete()

    def _note(self, name: str, cause: str, *, is_failure: bool) -> None:
        with self._changed:
            self._causes[name] = cause
            if name in self._order:
                self._order[name] = self._order.pop(name)  # the others do not wait for it
            if not is_failure or self._stop.is_set() or self._logged == cause:
                return
            self._logged = cause
        _log.error("pages of a checkpoint cannot be read, they are tried again file=%s cause=%s", name, cause)
