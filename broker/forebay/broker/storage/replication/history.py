"""History of a journal: the rule by which its records become batches, the same for every reader.

- The epoch is that of the highest fence so far. Of two fences with one epoch the first counts.
- Records of a lower epoch, or of another owner of it, do not count: they are the last ones of a fenced owner.
- An export of the epoch ends the journal: nothing after it counts.
- Within an epoch only the next chunk of the next group counts: others are repetitions, or follow one that is missing
  and that its owner appends again.

So whatever fenced owners append, and how often an owner repeats itself, every reader takes the same batches in the same
order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final

from forebay.broker.storage.replication.batch import Batch
from forebay.broker.storage.replication.batch import decode as decode_batch
from forebay.broker.storage.replication.pieces import Pieces
from forebay.broker.storage.replication.record import Header, RecordKind


@dataclass(frozen=True, slots=True)
class ReaderPosition:
    """Place of a reader between two groups."""

    position: int = 0
    """Next position to read."""

    epoch: int = 0
    owner: bytes = b""
    """Owner of the epoch; empty where the epoch is that of an imported store, which has none."""

    group: int = 0
    """Next group of the epoch."""

    released: bool = False
    """True if the owner of the epoch has stopped gracefully."""

    exported: bool = False
    """True if the store has left the journal: nothing counts from here on."""


class Verdict(Enum):
    """Effect of a record on its readers."""

    VOID = auto()
    """None: it does not count."""

    FENCE = auto()
    """An epoch begins; an incomplete group before it does not count."""

    CHUNK = auto()
    """Next chunk of a group."""

    GROUP = auto()
    """Last chunk of a group, which counts."""

    RELEASE = auto()
    """The owner has stopped gracefully."""

    EXPORT = auto()
    """The store has left the journal."""


@dataclass(slots=True)
class Rule:
    """Reader's state without the bodies of records."""

    place: ReaderPosition = field(default_factory=ReaderPosition)
    chunk: int = 0
    """Next chunk of the group."""

    def judge(self, header: Header) -> Verdict:
        """Judge the record of the next position."""
        before = self.place
        self.place = replace(before, position=before.position + 1)
        if before.exported:
            return Verdict.VOID
        if header.kind is RecordKind.FENCE:
            if header.epoch <= before.epoch:
                return Verdict.VOID
            self.place = ReaderPosition(before.position + 1, header.epoch, header.owner)
            self.chunk = 0
            return Verdict.FENCE
        if (header.epoch, header.owner) != (before.epoch, before.owner):
            return Verdict.VOID
        if header.kind is RecordKind.RELEASE:
            self.place = replace(self.place, released=True)
            return Verdict.RELEASE
        if header.kind is RecordKind.EXPORT:
            self.place = replace(self.place, exported=True)
            return Verdict.EXPORT
        if header.kind is not RecordKind.CHUNK or (header.group, header.chunk) != (before.group, self.chunk):
            return Verdict.VOID
        self.chunk += 1
        if self.chunk < header.chunks:
            return Verdict.CHUNK
        self.place = replace(self.place, group=before.group + 1)
        self.chunk = 0
        return Verdict.GROUP


class History:
    """Reader's state. Records are taken in the order of their positions, without a gap."""

    def __init__(self, place: ReaderPosition | None = None) -> None:
        """Begin at a place."""
        self._rule: Final = Rule(place or ReaderPosition())
        self._chunks: list[Pieces] = []
        self.endpoint = ""
        """Endpoint of the owner, as its fence names it."""
        self.successor = ""
        """Broker that takes over at once from the owner that has ended, as its release names it."""
        self.exported_to = ""
        """Place of the exported directory, as the export names it."""

    @property
    def place(self) -> ReaderPosition:
        """Place after the last record that was taken."""
        return self._rule.place

    def take(self, header: Header, body: Pieces) -> Batch | None:
        """Take the record of the next position; returns the batch that it completes.

        Raises ``FrameDamaged``.
        """
        match self._rule.judge(header):
            case Verdict.FENCE:
                self.endpoint = body.joined().decode(errors="replace")
                self._chunks = []
            case Verdict.RELEASE:
                self.successor = body.joined().decode(errors="replace")
            case Verdict.EXPORT:
                self.exported_to = body.joined().decode(errors="replace")
            case Verdict.CHUNK:
                self._chunks.append(body)
            case Verdict.GROUP:
                chunks, self._chunks = [*self._chunks, body], []
                return decode_batch(Pieces.joining(chunks))
        return None
