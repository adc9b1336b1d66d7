"""Input folder of the demo, and the form of its records.

A record is one line of JSON with its own id, so that it can be identified at the other end. A file appears in the
folder atomically: it is written under a hidden name, which Spark ignores, and then renamed. The ids in the folder are
the reference of the reconciliation.
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
    """Record produced by the source."""

    source: str
    """Source: a file's name, or `live`."""

    sequence: int
    """Number within the source, from 0."""

    entity: str
    """Entity of the record: the key, within which the order is kept."""

    produced_at: datetime
    """Time of the event, or of reading the row, with a zone."""

    data: dict[str, Any]
    """Fields of the record."""

    @property
    def id(self) -> str:
        """Id that is unique in a run."""
        return f"{self.source}#{self.sequence}"

    def line(self) -> str:
        """Return the record as a line of JSON, without the line end."""
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
    """Folder that Spark's file stream reads, with a single writing process."""

    path: Path
    """Existing folder."""

    written: int = field(default=0, init=False)
    """Number of published files."""

    def stage(self, records: Sequence[SourceRecord], name: str) -> Path:
        """Write ``records`` under a hidden name, invisible until `publish`."""
        staged = self.path / f".{name}.staged"
        staged.write_text("".join(f"{record.line()}\n" for record in records), encoding="utf-8")
        return staged

    def publish(self, staged: Path) -> Path:
        """Publish a staged file atomically."""
        visible = self.path / FILE_NAME.format(number=self.written)
        staged.rename(visible)
        self.written += 1
        return visible

    def produced_ids(self) -> Iterator[str]:
        """Yield the id of every record in the published files."""
        for path in sorted(self.path.glob("[0-9]*.json")):
            with path.open(encoding="utf-8") as lines:
                yield from (str(json.loads(line)["id"]) for line in lines)


def number_rows(
    rows: Iterable[dict[str, Any]], *, source: str, chunk_rows: int, now: datetime
) -> Iterator[list[SourceRecord]]:
    """Group ``rows`` into chunks of ``chunk_rows`` records; a chunk has one key, which keeps its order."""
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
    """Return a unique name for each input: its file name, numbered if two files share one."""
    seen: dict[str, int] = {}
    names = []
    for path in paths:
        seen[path.name] = seen.get(path.name, 0) + 1
        names.append(path.name if seen[path.name] == 1 else f"{path.stem}-{seen[path.name]}{path.suffix}")
    return names
