"""Consumer with saved positions in a process of its own, for kills; and what an outside oracle knows of it.

The process appends a line to a file for each record that it processes, before it finishes the record: the file is the
effect that the outside world sees, and it survives a kill.
"""

from __future__ import annotations

import multiprocessing
import os
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Final

from forebay.client import Client
from forebay.client.errors import ForebayError, PositionFenced
from forebay.client.positions.consumer import Batch
from forebay.client.positions.settings import ConsumerOptions

SINK: Final = "orders"
NAME: Final = "billing"
WAITING_MAX: Final = 6
"""Parts of batches that a process holds, of those that finish out of order."""
Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Job:
    """Work of one process."""

    endpoint: str
    store: str
    effects: str
    """Path of the file of lines."""

    run: int
    options: ConsumerOptions
    environment: Mapping[str, str]
    """Variables; the server of the forks may be older than the credentials."""


def context() -> ForkServerContext:
    """Return a way to start processes within milliseconds, with everything imported."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload([__name__, "forebay.client.positions.stores.broker"])
    return found


def consume(job: Job) -> None:
    """Process records until the process is killed; ends by itself without ``follow``, and when it is replaced."""
    os.environ.update(job.environment)
    effects = os.open(job.effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        with (
            Client(job.endpoint) as client,
            client.consumer(SINK, NAME, store=job.store, **job.options) as consumer,
        ):
            in_order = job.options.get("auto_finish", True)
            process = _process if in_order else _Shuffled(random.Random(job.run))  # an order, no secret
            for batch in consumer:
                process(job, batch, effects)
            if isinstance(process, _Shuffled):
                process.rest(job, effects)
    except PositionFenced:
        os.write(effects, f"{job.run} fenced\n".encode())
    except ForebayError as error:
        os.write(effects, f"{job.run} error {type(error).__name__} {error}\n".encode())


def _process(job: Job, batch: Batch, effects: int) -> None:
    os.write(effects, _lines(job, batch, batch.first_offset, batch.last_offset))


def _lines(job: Job, batch: Batch, first: int, last: int) -> bytes:
    kind = "gap" if batch.gap is not None else "record"
    return "".join(f"{job.run} {kind} {batch.partition} {offset}\n" for offset in range(first, last + 1)).encode()


class _Shuffled:
    """Processes and finishes parts of batches in another order than they came in."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._waiting: list[tuple[Batch, int, int]] = []

    def __call__(self, job: Job, batch: Batch, effects: int) -> None:
        """Take a batch, and process others while more than ``WAITING_MAX`` parts wait."""
        middle = self._chance.randint(batch.first_offset, batch.last_offset)
        parts = ((batch.first_offset, middle), (middle + 1, batch.last_offset))
        self._waiting += [(batch, first, last) for first, last in parts if first <= last]
        while len(self._waiting) > WAITING_MAX:
            self._next(job, effects)

    def rest(self, job: Job, effects: int) -> None:
        """Process what waits."""
        while self._waiting:
            self._next(job, effects)

    def _next(self, job: Job, effects: int) -> None:
        batch, first, last = self._waiting.pop(self._chance.randrange(len(self._waiting)))
        os.write(effects, _lines(job, batch, first, last))
        batch.finish(first, last)


@dataclass(slots=True)
class Effects:
    """Lines of all processes so far."""

    path: Path
    seen: Counter[Place] = field(default_factory=Counter)
    """Records by number of times that they were processed."""

    highest: dict[int, int] = field(default_factory=dict)
    """Highest offset that was processed, by partition."""

    runs: set[int] = field(default_factory=set)
    """Processes that processed a record."""

    problems: list[str] = field(default_factory=list)
    fenced: int = 0
    _read: int = 0

    def read(self) -> None:
        """Read the lines that were added."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # a write that is in progress
                self._read += len(line)
                self._note(line.decode().split(" "))

    def _note(self, words: list[str]) -> None:
        run, kind, *rest = words
        match kind.strip():
            case "record":
                place = (int(rest[0]), int(rest[1]))
                self.seen[place] += 1
                self.highest[place[0]] = max(place[1], self.highest.get(place[0], -1))
                self.runs.add(int(run))
            case "fenced":
                self.fenced += 1
            case _:
                self.problems.append(f"process {run}: {' '.join([kind, *rest]).strip()}")
