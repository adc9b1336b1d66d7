"""The form in which the demo's records go to Spark, and the folder in which Spark finds them.

A record is one line of JSON with an id of its own, so that it can be found again at the other end whatever
happened in between. A file appears in the folder whole or not at all: it is written under a hidden name,
which Spark ignores, and renamed. The ids in the folder are the truth that the reconciliation starts from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

FILE_NAME: Final = "{number:08d}.json"


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One record as the source produced it."""

    source: str
    """Where it is from: a file's name, or `live`."""

    sequence: int
    """Its number within the source, from 0."""

    entity: str
    """What it speaks of: the key, within which order is kept."""

    produced_at: datetime
    """When the thing happened or the row was read, with a zone."""

    data: dict[str, Any]
    """Its fields."""

    @property
    def id(self) -> str:
        """Unique in a run."""
        return f"{self.source}#{self.sequence}"

    def line(self) -> str:
        """One line of JSON, without the line's end."""
        return json.dumps(
            {
                "id": self.id,
                "source": self.source,
                "sequence": self.sequence,
                "entity": self.entity,
                "produced_at": self.produced_at.isoformat(),
                "data": self.data,
            },
            ensure_ascii=False,
            allow_nan=False,
        )


@dataclass(slots=True)
class InputFolder:
    """The folder that Spark's file stream reads. One process writes to it."""

    path: Path
    """An existing folder."""

    written: int = field(default=0, init=False)
    """Files that appeared so far."""

    def stage(self, records: Sequence[SourceRecord], name: str) -> Path:
        """Write ``records`` under a hidden name; nobody sees them before `publish`."""
        staged = self.path / f".{name}.staged"
        staged.write_text("".join(f"{record.line()}\n" for record in records), encoding="utf-8")
        return staged

    def publish(self, staged: Path) -> Path:
        """Let a staged file appear, at once and whole."""
        visible = self.path / FILE_NAME.format(number=self.written)
        staged.rename(visible)
        self.written += 1
        return visible

    def produced_ids(self) -> Iterator[str]:
        """Yield the id of every record in the files that appeared."""
        for path in sorted(self.path.glob("[0-9]*.json")):
            with path.open(encoding="utf-8") as lines:
                yield from (str(json.loads(line)["id"]) for line in lines)


def number_rows(
    rows: Iterable[dict[str, Any]], *, source: str, chunk_rows: int, now: datetime
) -> Iterator[list[SourceRecord]]:
    """Cut ``rows`` into chunks of ``chunk_rows`` records; the rows of a chunk share a key, so that they stay
    in order.
    """
    chunk: list[SourceRecord] = []
    for sequence, row in enumerate(rows):
        entity = f"{source}/{sequence // chunk_rows:05d}"
        chunk.append(SourceRecord(source, sequence, entity, now, row))
        if len(chunk) == chunk_rows:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def source_names(paths: Sequence[Path]) -> list[str]:
    """A name for each input: the file's, with a number where two files share one."""
    seen: dict[str, int] = {}
    names = []
    for path in paths:
        seen[path.name] = seen.get(path.name, 0) + 1
        names.append(path.name if seen[path.name] == 1 else f"{path.stem}-{seen[path.name]}{path.suffix}")
    return names
