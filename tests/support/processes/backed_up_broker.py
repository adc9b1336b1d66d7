"""Broker process that is backed up, continues, loses its disk, and is restored under the same address."""

from __future__ import annotations

import secrets
import shutil
import time
from pathlib import Path

from forebay.broker.storage.backup.catalog import find
from forebay.broker.storage.backup.restores.restore import OnDamage, RestoreReport, restore
from forebay.broker.storage.backup.targets import open_target
from forebay.client import Backup, Client
from tests.support.processes.broker import BrokerProcess, Launcher, free_port


class BackedUpBroker:
    """A broker with a directory and a target in one folder. Clients that stay open find it again."""

    def __init__(self, launcher: Launcher, folder: Path) -> None:
        self._launcher = launcher
        self.directory = folder / "data"
        self._target = str(folder / "target")
        self.endpoint = f"127.0.0.1:{free_port()}"
        self._process = self._start()

    def _start(self) -> BrokerProcess:
        process = self._launcher.start(self.directory, self.endpoint, backup_target=self._target, disk_reserve_bytes=0)
        process.ready()
        return process

    def back_up(self) -> Backup:
        """Make a backup."""
        with Client(self.endpoint) as client:
            *_, made = client.backups.create()
        assert isinstance(made, Backup)
        return made

    def lose(self) -> None:
        """Kill it, and destroy its directory."""
        self._process.kill()
        shutil.rmtree(self.directory)

    def restore(self, backup: str = "") -> RestoreReport:
        """Restore a backup, by default the newest, and start on it."""
        target = open_target(self._target)
        manifest, at_us = find(target, backup), time.time_ns() // 1_000
        report = restore(
            target, manifest, self.directory, on_damage=OnDamage.STOP, store_id=secrets.token_hex(16), at_us=at_us
        )
        self._process = self._start()
        return report

    def lose_and_restore(self, backup: str = "") -> RestoreReport:
        """Lose the disk, and restore a backup."""
        self.lose()
        return self.restore(backup)

    def restart(self) -> None:
        """Kill it, and start it again on its directory."""
        self._process.kill()
        self._process = self._start()

    def close(self) -> None:
        """Kill it."""
        self._process.kill()
