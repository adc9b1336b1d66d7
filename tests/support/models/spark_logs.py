"""A streaming query as Spark runs it: its two logs as a model, and a death at any point."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from forebay.spark.read.stream_reader import ForebayStreamReader
from forebay.spark.resend.reader import ForebayResendReader

Place = tuple[int, int]
Reader = ForebayStreamReader | ForebayResendReader


class Death(StrEnum):
    """End of a run of a query."""

    PLANNED = "before the plan of a batch is in the checkpoint"
    LOGGED = "before a batch is read"
    READ = "before a batch is committed"
    COMMITTED = "before the source hears of a commit"
    NEVER = "at rest"


@dataclass(slots=True)
class Query:
    """Contents of a query's checkpoint, and the records of its target."""

    reader: Callable[[], Reader]
    """Makes what a run reads with."""
    offsets: list[str] = field(default_factory=list)
    """Ends of the batches that were planned: Spark's offset log."""
    committed: int = 0
    """Batches that are done: Spark's commit log."""
    taken: dict[int, list[Place]] = field(default_factory=dict)
    """Rows of each batch that was read, by its number."""
    began: list[str] = field(default_factory=list)
    """Start of the query, as each run was given it."""
    may_be_gone: Callable[[Place], bool] = lambda _: False
    """True if a row may be missing when a batch is repeated."""

    def run(self, death: Death, after: int) -> None:
        """Run until there is nothing new, or until it dies in the batch that comes ``after`` others."""
        reader = self.reader()
        try:
            self._run(reader, death, after)
        finally:
            reader.stop()

    def _run(self, reader: Reader, death: Death, after: int) -> None:
        if self.offsets and self.committed < len(self.offsets):
            start = self.offsets[-2] if len(self.offsets) > 1 else self._initial(reader)
            if self._finish(reader, start, death if after == 0 else Death.NEVER):
                return
        while True:
            start = self.offsets[-1] if self.offsets else self._initial(reader)
            end = json.dumps(reader.latestOffset(json.loads(start), reader.getDefaultReadLimit()))
            if end == start and self.offsets:  # a first batch is planned also without rows
                return
            dies = death if after <= 0 else Death.NEVER
            after -= 1
            if dies is Death.PLANNED:
                return
            self.offsets.append(end)
            if dies is Death.COMMITTED:
                return
            if len(self.offsets) > 1:
                reader.commit(json.loads(start))
            if self._finish(reader, start, dies):
                return

    def _initial(self, reader: Reader) -> str:
        first, second = (json.dumps(reader.initialOffset()) for _ in range(2))
        assert first == second
        self.began.append(first)
        return first

    def _finish(self, reader: Reader, start: str, death: Death) -> bool:
        """Read the last batch that was planned and commit it; say whether the query died."""
        if death is Death.LOGGED:
            return True
        number = len(self.offsets) - 1
        rows = [
            (row["partition"], row["offset"])
            for part in reader.partitions(json.loads(start), json.loads(self.offsets[-1]))
            for batch in reader.read(part)
            for row in batch.to_pylist()
        ]
        had = self.taken.get(number, rows)
        same = [place for place in had if place in rows or not self.may_be_gone(place)]
        assert same == rows, "a batch that is run again has the rows that it had"
        self.taken[number] = rows
        if death is Death.READ:
            return True
        self.committed = number + 1
        return False

    def rows(self) -> list[Place]:
        """Return the rows of all batches that are committed, in order."""
        return [place for number in range(self.committed) for place in self.taken[number]]
