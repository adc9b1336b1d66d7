"""Backups whose steps a test decides, for what drives them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from forebay.broker.core.backups.values import BackupSummary, Progress
from forebay.broker.runtime.backups.backups import Backups, Schedule
from forebay.broker.runtime.backups.engine import BackupFailed
from forebay.broker.runtime.broker import Broker

WAIT_S: Final = 30.0


def summary(name: str, at_us: int = 0) -> BackupSummary:
    """A backup that needs nothing of an earlier one."""
    return BackupSummary(name, "", at_us, size=100, transferred_bytes=40, files=2, sinks=1, seconds=1.5)


@dataclass(eq=False)
class ScriptedEngine:
    """Backups that are written down, and nowhere else. Its copy waits while ``may_copy`` is not set."""

    target: str = "memory://backups"
    found: BackupSummary | None = None
    fails: dict[str, str] = field(default_factory=dict)
    """Cause of the failure of each step that fails."""

    steps: list[str] = field(default_factory=list)
    threads: dict[str, str] = field(default_factory=dict)
    """Thread that ran a step, by its step."""

    made: int = 0
    may_copy: threading.Event = field(default_factory=threading.Event)
    copying: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.may_copy.set()

    def job(self, *, full: bool, at_us: int, busy: Callable[[], bool]) -> ScriptedJob:
        """See ``Engine.job``."""
        self.made += 1
        return ScriptedJob(self, f"b{self.made}", at_us, full=full)

    def newest(self) -> BackupSummary | None:
        """See ``Engine.newest``."""
        self.step("newest")
        return self.found

    def prune(self, now_us: int) -> int:
        """See ``Engine.prune``."""
        self.step("prune")
        return 1

    def step(self, name: str) -> None:
        """Note a step; raises if it is to fail."""
        self.steps.append(name)
        self.threads[name] = threading.current_thread().name
        if name in self.fails:
            raise BackupFailed(self.fails[name])


class ScriptedJob:
    """One backup of a ``ScriptedEngine``."""

    def __init__(self, engine: ScriptedEngine, name: str, at_us: int, *, full: bool) -> None:
        self._engine = engine
        self._at_us = at_us
        self._stopped = ""
        self.progress = Progress(name, "" if full else "parent", files=2, bytes=100)

    def prepare(self) -> None:
        self._engine.step("prepare")

    def take(self) -> None:
        self._engine.step("take")

    def copy_bulk(self, on_progress: Callable[[], None]) -> None:
        self._engine.step("copy bulk")
        self.progress.files_done = 1
        on_progress()
        self._engine.copying.set()
        assert self._engine.may_copy.wait(WAIT_S)
        if self._stopped:
            raise BackupFailed(self._stopped)

    def copy_rest(self, on_progress: Callable[[], None]) -> None:
        self._engine.step("copy rest")

    def finish(self, seconds: Callable[[], float]) -> BackupSummary:
        self._engine.step("finish")
        return summary(self.progress.backup, self._at_us)

    def stop(self, cause: str) -> None:
        self._stopped = cause
        self._engine.may_copy.set()

    def remove(self) -> None:
        self._engine.step("remove")


def backups_of(
    broker: Broker, engine: ScriptedEngine | None, *, interval_s: float = 0.0, disk_reserve_bytes: int = 0
) -> Backups:
    """Backups of a broker that runs."""
    return Backups(
        engine,
        broker.clock,
        broker.committer,
        broker.reclaimer,
        schedule=Schedule(interval_s),
        disk_reserve_bytes=disk_reserve_bytes,
    )
