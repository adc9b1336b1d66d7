"""History of a journal: the rule by which its records become batches, the same for every reader.

- The epoch is that of the highest fence so far. Of two fences with one epoch the first counts.
- Records of a lower epoch, or of another owner of it, do not count: they are the last ones of a fenced owner.
- Within an epoch only the next chunk of the next group counts: others are repetitions, or follow one that is missing
  and that its owner appends again.

So whatever fenced owners append, and how often an owner repeats itself, every reader takes the same batches in the same
order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from forebay.broker.storage.replication.batch import Batch
from forebay.broker.storage.replication.batch import decode as decode_batch
from forebay.broker.storage.replication.record import Header, RecordKind


@dataclass(frozen=True, slots=True)
class ReaderPosition:
    """Place of a reader between two groups."""

    position: int = 0
    """Next position to read."""

    epoch: int = 0
    owner: bytes = b""
    group: int = 0
    """Next group of the epoch."""

    released: bool = False
    """True if the owner of the epoch has ended in order."""


@dataclass(slots=True)
class History:
    """Reader's state. Records are taken in the order of their positions, without a gap."""

    place: ReaderPosition = field(default_factory=ReaderPosition)
    endpoint: str = ""
    """Endpoint of the owner, as its fence names it."""

    _chunks: list[bytes] = field(default_factory=list)

    def take(self, header: Header, body: memoryview) -> Batch | None:
        """Take the record of the next position; returns the batch that it completes.

        Raises ``FrameDamaged``.
        """
        before = self.place
        after = ReaderPosition(before.position + 1, before.epoch, before.owner, before.group, before.released)
        batch: Batch | None = None
        if header.kind is RecordKind.FENCE:
            if header.epoch > before.epoch:
                after = ReaderPosition(after.position, header.epoch, header.owner)
                self.endpoint = bytes(body).decode(errors="replace")
                self._chunks = []
        elif (header.epoch, header.owner) == (before.epoch, before.owner):
            if header.kind is RecordKind.RELEASE:
                after = ReaderPosition(after.position, before.epoch, before.owner, before.group, released=True)
            elif header.group == before.group and header.chunk == len(self._chunks):
                self._chunks.append(bytes(body))
                if len(self._chunks) == header.chunks:
                    frame = self._chunks[0] if header.chunks == 1 else b"".join(self._chunks)
                    batch, self._chunks = decode_batch(frame), []
                    after = ReaderPosition(after.position, before.epoch, before.owner, before.group + 1)
        self.place = after
        return batch
