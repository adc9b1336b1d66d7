"""File target: writes records to JSON Lines files, one per partition, each record exactly once.

``path`` ``out/orders.jsonl`` becomes ``out/orders-0.jsonl``, ``out/orders-1.jsonl`` and so on; a line is
an envelope of `forebay.deliver.targets.encoding`. `forebay.deliver.targets.lines_file` describes recovery
after a kill.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Final

from forebay.deliver import classification
from forebay.deliver.batches.batch import Batch
from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.errors import InvalidOption
from forebay.deliver.outcome import Delivered, Outcome
from forebay.deliver.targets import encoding as encode
from forebay.deliver.targets.lines_file import LinesFile
from forebay.deliver.targets.options import TargetDescription, TargetOption, described
from forebay.deliver.targets.target import TargetContext


class FileTarget:
    """A `forebay.deliver.Target` that writes files."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Protects the table; a file is used by one thread at a time, as deliveries of a partition are.
        self._table = Lock()
        self._files: dict[int, LinesFile] = {}

    def open(self, context: TargetContext) -> BatchLimits | None:
        """Check that the folder exists; files are created with their first record."""
        if not self._path.parent.is_dir():
            raise InvalidOption("file", "path", f"the folder {self._path.parent} does not exist")
        return None

    def send(self, batch: Batch) -> Outcome:
        """Append a batch and sync it; records that are already in the file are not written again."""
        with self._table:
            file = self._files.setdefault(batch.partition, LinesFile(self.path_of(batch.partition)))
        offsets = (record.offset for record in batch.records)
        try:
            file.append(batch.incarnation, list(zip(offsets, encode.envelopes(batch), strict=True)))
        except OSError as error:
            return classification.transport(error, place=str(self._path))
        return Delivered()

    def close(self) -> None:
        """Close the files."""
        with self._table:
            while self._files:
                self._files.popitem()[1].close()

    def path_of(self, partition: int) -> Path:
        """Return the file of a partition."""
        return self._path.with_name(f"{self._path.stem}-{partition}{self._path.suffix}")


DESCRIPTION: Final = TargetDescription(
    "Writes records to JSON Lines files, one per partition, each record exactly once.",
    (
        TargetOption(
            *("path", "text", None, "a file in a folder that exists"),
            "File; out.jsonl becomes out-0.jsonl for partition 0.",
        ),
    ),
)


@described(DESCRIPTION)
def file_target(*, path: str) -> FileTarget:
    """Build the target; ``path`` is its only option."""
    return FileTarget(Path(path))
