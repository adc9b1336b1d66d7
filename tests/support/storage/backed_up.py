"""A store on disk and its backups, step by step as the runtime makes them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from forebay.broker.core.backups.values import BackupSummary
from forebay.broker.storage.backup.catalog import find
from forebay.broker.storage.backup.engine import BackupSettings, Origin, StoreBackups
from forebay.broker.storage.backup.manifest import Manifest
from forebay.broker.storage.backup.targets import open_target
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.disk_directory import SMALL_STORE, fill
from tests.support.storage.jobs import run

STORE_ID: Final = "5" * 32
AT_US: Final = 1_700_000_000_000_000


class Refused(Exception):
    """A backup failed."""


class BackedUp:
    """A filled store, and a target for its backups. Each backup is a second younger than the one before."""

    def __init__(self, folder: Path, *, filled: bool = True, target: str = "", store_id: str = STORE_ID) -> None:
        self.directory = folder / "data"
        self.target_text = target or str(folder / "target")
        self.target = open_target(self.target_text)
        self.store = RocksStore(self.directory, settings=SMALL_STORE)
        if filled:
            fill(self.store)
        seconds = itertools.count(1)
        self.clock: Callable[[], int] = lambda: AT_US + next(seconds) * 1_000_000
        origin = Origin(store=self.store, directory=self.directory, store_id=store_id, start_count=1, version="1.2.3")
        settings = BackupSettings(target=self.target_text, keep_last=2, keep_days=0)
        self.backups = StoreBackups(origin, settings, self.clock, time.monotonic, failed=Refused)

    def back_up(self, *, full: bool = False) -> BackupSummary:
        """Make a backup."""
        return run(self.backups.job(full=full, at_us=self.clock(), busy=lambda: False))

    def manifest(self, backup: str = "") -> Manifest:
        """Return the manifest of a backup, by default of the newest."""
        return find(self.target, backup)
