"""Real broker process that is stopped at one exact step of its store: killed, or held until released.

Run as ``python -m tests.support.processes.stops DESCRIPTOR``, it does what ``tests.support.processes.launcher`` does,
but a broker whose data directory has a ``.stop`` file beside it opens a store that looks out for the step written
there. The file is used up.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from forebay.broker import serve
from forebay.broker.runtime.commit import group
from forebay.broker.settings import BrokerSettings
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Operation, Put, PutAll, Store, Value
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.processes import launcher

Action = Literal["ingest", "write", "sync", "compact"]
Kind = Literal["any", "page", "reclaim"]


FIRST_ENTRY: Final = ENTRY.key(1, 0, 0)
"""Prefix of index keys that name no page."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A step of a store, and what happens there."""

    action: Action
    when: Literal["before", "after"]
    number: int = 1
    """Number of the step, counted from the start of the process."""

    kind: Kind = "any"
    """Only writes that name pages, or remove their bytes; of syncs, the ones after such writes."""

    hold: bool = False
    """Wait instead of dying, until the test releases it. See ``place``."""

    dies_at: int = 0
    """Once released, die after this many further writes; 0 is not to die."""

    small_groups: bool = False
    """A group is full with one page: what else waits is left out of it, but for what has to be in it."""


def place(data_dir: Path, name: str) -> Path:
    """Beside a data directory: ``stop`` is the plan; ``held`` and ``go`` are pipes, opened there and then."""
    return data_dir.with_name(f"{data_dir.name}.{name}")


def plan(data_dir: Path, stop: Stop) -> None:
    """Have the next broker on ``data_dir`` stopped."""
    place(data_dir, "stop").write_text(json.dumps(asdict(stop)))
    for name in ("held", "go"):
        if stop.hold and not place(data_dir, name).exists():
            os.mkfifo(place(data_dir, name))


class StoppingStore(RocksStore):
    """The store on disk, in a process that dies or waits at a step of it."""

    def __init__(self, directory: Path, stop: Stop) -> None:
        super().__init__(directory)
        self._stop = stop
        self._beside = directory
        self._counts: Counter[str] = Counter()
        self._after_kind = False
        self._let_go = False
        self._further = 0

    def ingest(self, items: Sequence[tuple[bytes, Value]]) -> None:
        with self._step("ingest", counts=bool(items)):
            super().ingest(items)

    def write(self, operations: Sequence[Operation]) -> None:
        self._after_kind = any(_is_of(operation, self._stop.kind) for operation in operations)
        with self._step("write", counts=self._after_kind):
            super().write(operations)
        if self._let_go and operations:
            self._further += 1
            if self._further == self._stop.dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def sync(self) -> None:
        with self._step("sync", counts=self._after_kind):
            super().sync()

    def compact(self, family: Family, first: bytes, end: bytes) -> None:
        with self._step("compact", counts=True):
            super().compact(family, first, end)

    @contextmanager
    def _step(self, action: Action, *, counts: bool) -> Iterator[None]:
        stop = self._stop
        self._counts[action] += counts
        reached = counts and action == stop.action and self._counts[action] == stop.number
        if reached and stop.when == "before":
            self._reached()
        yield
        if reached and stop.when == "after":
            self._reached()

    def _reached(self) -> None:
        if not self._stop.hold:
            os.kill(os.getpid(), signal.SIGKILL)
        with place(self._beside, "held").open("wb"):
            pass  # opens when the test looks
        place(self._beside, "go").read_bytes()
        self._let_go = True


def _is_of(operation: Operation, kind: Kind) -> bool:
    match operation:
        case Put(family, key):
            return kind == "any" or (kind == "page" and family is Family.INDEX and key >= FIRST_ENTRY)
        case PutAll(family):
            return kind == "any" or (kind == "page" and family is Family.INDEX)
        case Delete(family):
            return kind == "any" or (kind == "reclaim" and family is Family.SMALL)
        case DeleteRange(family):
            return kind == "any" or (kind == "reclaim" and family is Family.BULK)


def open_store(settings: BrokerSettings) -> Store:
    """Take the place of the server's: a store that stops where a file says so."""
    planned = place(settings.data_dir, "stop")
    if not planned.exists():
        return RocksStore(settings.data_dir)
    stop = Stop(**json.loads(planned.read_text()))
    planned.unlink()
    if stop.small_groups:
        group.GROUP_BYTES = group.QUANTUM_BYTES = 1  # type: ignore[misc]
    return StoppingStore(settings.data_dir, stop)


if __name__ == "__main__":
    serve.open_store = open_store
    launcher.main(int(sys.argv[1]))
