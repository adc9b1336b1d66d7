"""Mark of a checkpoint: the small object that names it, created last.

    marks/NUMBER   the mark as one line of JSON, and a line with its CRC-32 in hexadecimal

Marks are created as records are, by the numbers from 0 on, and are never deleted. So checkpoints have one order, the
newest is the highest number, and of two that are made at the same time one succeeds. The records below the position of
the newest mark, its *horizon*, may be gone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from forebay.broker.storage.records.json_line import decode_line, encode_line
from forebay.broker.storage.replication.checkpoints.errors import MarkDamaged
from forebay.broker.storage.replication.engine import Engine, name_of
from forebay.broker.storage.replication.history import ReaderPosition

MARKS: Final = "marks"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """A complete checkpoint."""

    number: int
    id: str
    """Folder of its own files."""

    position: int
    """First position that it does not replace."""

    epoch: int
    owner: str
    """Owner of the epoch at that position, as hex; empty for an imported store."""

    group: int
    size: int
    """Bytes of its files, also those that it shares with earlier ones."""

    format: int = FORMAT

    @property
    def place(self) -> ReaderPosition:
        """Place of a reader that begins after it."""
        return ReaderPosition(self.position, self.epoch, bytes.fromhex(self.owner), self.group)

    def encode(self) -> bytes:
        """Return its content."""
        return encode_line(asdict(self))


def decode_mark(content: bytes, number: int) -> Mark:
    """Return a mark. Raises ``MarkDamaged``."""
    found = decode_line(content)
    if found is None:
        raise MarkDamaged(f"the mark of checkpoint {number} is damaged: its checksum does not match")
    if found["format"] > FORMAT:
        raise MarkDamaged(f"checkpoint {number} has format {found['format']}; this version reads up to {FORMAT}")
    return Mark(**found)


class Marks:
    """Marks of a journal, as far as they are known. For one thread."""

    def __init__(self, engine: Engine) -> None:
        """Nothing is read before ``refresh``."""
        self._engine: Final = engine
        self._newest: Mark | None = None

    @property
    def newest(self) -> Mark | None:
        """Newest mark at the last refresh."""
        return self._newest

    @property
    def horizon(self) -> int:
        """Position of the newest mark, 0 without one: records below it may be gone."""
        return self._newest.position if self._newest is not None else 0

    def refresh(self) -> Mark | None:
        """Return the newest mark as of now. Raises ``EngineAway`` and ``MarkDamaged``."""
        if self._newest is None:
            self._newest = self._highest()
            return self._newest
        while (found := self.read(self._newest.number + 1)) is not None:
            self._newest = found
        return self._newest

    def read(self, number: int) -> Mark | None:
        """Return a mark, None if there is none. Raises ``EngineAway`` and ``MarkDamaged``."""
        content = self._engine.read_named(mark_name(number))
        return decode_mark(content, number) if content is not None else None

    def add(self, mark: Mark) -> bool:
        """Create a mark; returns False if its number has one. Raises ``EngineAway``, after which it may exist."""
        return self._engine.create_named(mark_name(mark.number), mark.encode())

    def _highest(self) -> Mark | None:
        """Find the highest number by doubling and halving, since marks have no gaps."""
        low, found = -1, None
        step = 1
        while (mark := self.read(low + step)) is not None:
            low, found, step = low + step, mark, step * 2
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            if (mark := self.read(middle)) is not None:
                low, found = middle, mark
            else:
                high = middle
        return found


def mark_name(number: int) -> str:
    """Return the name of a mark."""
    return f"{MARKS}/{name_of(number)}"
