"""Owner of a journal: it fences the one before, appends groups, and confirms them strictly in order.

A group is durable when all of its chunks are in the journal and every position below them is known: written by this
owner, or read. What another writer has put there is read. A record of a lower epoch, the last word of a fenced owner,
is skipped, and the chunks from there on are appended again. A fence of a higher epoch ends this owner: nothing that
is not confirmed by then is durable, and nothing is confirmed after it.

An append whose outcome is unknown is repeated until the engine answers, however long that takes: the record at its
position tells whether the first try has succeeded.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from math import ceil
from typing import Final

from forebay.broker.core.journal_outage import JournalOutage
from forebay.broker.storage.replication.batch import Piece
from forebay.broker.storage.replication.engine import Engine, EngineAway, EngineFull
from forebay.broker.storage.replication.record import Header, RecordDamaged, RecordKind, decode, encode

_log: Final = logging.getLogger(__name__)
CHUNK_BYTES: Final = 9 << 20
"""Largest body of a record.

The largest groups under load, 32 MiB and their keys, are four of them, which are created at once.
"""
CHUNKS_AT_ONCE: Final = 4
"""Records that are appended at the same time."""
FENCES_AHEAD: Final = (0, 4, 16, 64)
"""Positions between the end of the journal and a fence, by the number of the attempt."""
RETRY_FIRST_S: Final = 0.05
RETRY_MAX_S: Final = 2.0
UNANSWERED_S: Final = 5.0
"""Duration of an append from which on the engine counts as away, although no request has failed yet."""


class Fenced(Exception):
    """Another owner has taken over or may have, or this one was ended: nothing more is confirmed."""


class Owner:
    """Writer of one epoch. For one thread at a time, except ``end``, ``away_since`` and ``outage``."""

    def __init__(self, engine: Engine, epoch: int, identity: bytes, position: int, clock: Callable[[], float]) -> None:
        """``position`` is after the fence of ``epoch`` and known to be the end, see ``fence``.

        ``clock`` is monotonic and counts the time in which the machine is suspended, in seconds.
        """
        self._engine: Final = engine
        self._epoch: Final = epoch
        self._identity: Final = identity
        self._position = position
        self._clock = clock
        self._group = 0
        self._ended = threading.Event()
        self._fenced = ""
        self.appended_bytes = 0
        """Bytes of the records that this owner has appended."""
        self._threads = ThreadPoolExecutor(CHUNKS_AT_ONCE, thread_name_prefix="forebay-journal")
        self.confirmed_at = clock()
        """Time at which the last append that is confirmed began."""
        self.away_since: float | None = None
        """Time since when the engine does not answer; None while it does."""
        self._away_cause: EngineAway | None = None
        """Last failure since then."""
        self.free_bytes: int | None = None
        """Free bytes of the engine's device as of the last append, None if they are not known. Any thread."""
        self._append_began: float | None = None
        """Beginning of the append under way; None between two."""
        self._away_lock = threading.Lock()  # protects ``away_since`` and its cause, set by the threads that put records

    @property
    def position(self) -> int:
        """Next position of the journal."""
        return self._position

    @property
    def identity(self) -> bytes:
        """Random identity of this owner."""
        return self._identity

    @property
    def epoch(self) -> int:
        """Owner epoch."""
        return self._epoch

    @property
    def groups(self) -> int:
        """Groups that were confirmed."""
        return self._group

    def outage(self, reserve_bytes: int = 0) -> JournalOutage | None:
        """Return the outage of the engine as of now, None while it answers and has ``reserve_bytes`` of room."""
        with self._away_lock:
            since, cause = self.away_since, self._away_cause
        if since is not None:
            return JournalOutage(isinstance(cause, EngineFull), self._clock() - since, str(cause))
        began = self._append_began
        if began is not None and (seconds := self._clock() - began) >= UNANSWERED_S:
            return JournalOutage(False, seconds, "an append has no answer yet")
        free = self.free_bytes
        if free is not None and free < reserve_bytes:
            return JournalOutage(True, 0.0, f"{free} bytes are free, {reserve_bytes} are reserved")
        return None

    def append(self, frame: Sequence[Piece]) -> int:
        """Append a batch frame as one group; returns the position after it once it is durable.

        Blocks while the engine does not answer. Raises ``Fenced``.
        """
        bodies = _cut(frame)
        headers = [
            Header(RecordKind.CHUNK, self._epoch, self._identity, self._group, chunk, len(bodies))
            for chunk in range(len(bodies))
        ]
        self._append([encode(header, body) for header, body in zip(headers, bodies, strict=True)])
        self._group += 1
        return self._position

    def release(self, successor: str = "") -> None:
        """Append the orderly end of this owner. Raises as ``append`` does.

        ``successor`` takes over at once: an endpoint, ``ANY_OTHER``, or empty for any broker, also this one.
        """
        header = Header(RecordKind.RELEASE, self._epoch, self._identity, self._group)
        self._append([encode(header, [successor.encode()])])

    def export(self, to: str) -> None:
        """Append the end of the journal, whose store continues at ``to``, empty for nowhere.

        Raises as ``append`` does.
        """
        self._append([encode(Header(RecordKind.EXPORT, self._epoch, self._identity, self._group), [to.encode()])])

    def end(self) -> None:
        """End the waits for an engine that does not answer; appends raise ``Fenced`` then. Any thread."""
        self._ended.set()

    def close(self) -> None:
        """End the threads."""
        self.end()
        self._threads.shutdown()

    def _append(self, records: list[list[Piece]]) -> None:
        """Append records in order, from the first that is not confirmed on."""
        while records:
            if self._fenced:
                raise Fenced(self._fenced)
            batch = records[:CHUNKS_AT_ONCE]
            first, began = self._position, self._clock()
            self._append_began = began
            tasks = [self._threads.submit(self._put, first + at, record) for at, record in enumerate(batch)]
            wait(tasks)
            self._note_room()
            self._append_began = None
            # Every position below the end of the batch is known now; confirm up to the first that is another's.
            self._position = first + len(batch)
            own = [task.result() for task in tasks]
            confirmed = own.index(False) if False in own else len(own)
            self.appended_bytes += sum(map(len, (piece for record in batch for piece in record)))
            del records[:confirmed]
            self.confirmed_at = began

    def _note_room(self) -> None:
        """Look how much room the engine has. The one that appends waits for the engine anyway."""
        with suppress(EngineAway):  # the next append finds it, and waits
            self.free_bytes = self._engine.free_bytes()

    def _put(self, position: int, record: list[Piece]) -> bool:
        """Put a record at a position; returns False if a fenced owner has put one there.

        Raises ``Fenced``.
        """
        delay_s = RETRY_FIRST_S
        while True:
            if self._ended.is_set():
                raise Fenced("this owner was ended")
            try:
                created = self._engine.create(position, record) or self._is_own(position, record)
            except EngineAway as away:
                self._note_away(away)
                self._ended.wait(delay_s)
                delay_s = min(2 * delay_s, RETRY_MAX_S)
                continue
            self._note_answer()
            return created

    def _note_away(self, cause: EngineAway) -> None:
        with self._away_lock:
            before, self._away_cause = self._away_cause, cause
            if self.away_since is None:
                self.away_since = self._clock()
        is_full = isinstance(cause, EngineFull)
        if before is None or isinstance(before, EngineFull) is not is_full:
            what = "is full" if is_full else "does not answer"
            _log.error("journal %s, appends wait journal=%s cause=%s", what, self._engine.address, cause)

    def _note_answer(self) -> None:
        with self._away_lock:
            since, self.away_since, self._away_cause = self.away_since, None, None
        if since is not None:
            away_s = self._clock() - since
            _log.warning("journal answers again journal=%s seconds=%.1f", self._engine.address, away_s)

    def _is_own(self, position: int, record: list[Piece]) -> bool:
        """Tell whether the record at a taken position is ``record``. Raises ``Fenced``."""
        found = self._engine.read(position)
        if found is None:
            raise EngineAway(f"position {position} is taken, and has no record")
        try:
            header, _ = decode(found)
        except RecordDamaged as damage:  # it may have been a fence
            self._fenced = f"record {position} of {self._engine.address} cannot be read: {damage}"
            raise Fenced(self._fenced) from damage
        if header.epoch > self._epoch:
            self._fenced = f"owner epoch {header.epoch} is above {self._epoch}"
            raise Fenced(self._fenced)
        return found == b"".join(record)


def fence(
    engine: Engine,
    epoch: int,
    identity: bytes,
    endpoint: str,
    end: Callable[[], int],
) -> None:
    """Append a fence of an epoch at the end of the journal.

    ``end`` reads the journal and returns its first missing position. The journal has no gap below the fence: where a
    living owner still appends, the fence is put some positions ahead, and the positions below it are closed from
    above. The caller reads on: only the first fence of an epoch counts. Raises ``EngineAway``.
    """
    record = encode(Header(RecordKind.FENCE, epoch, identity), [endpoint.encode()])
    attempt = 0
    while True:
        first = end()
        ahead = FENCES_AHEAD[min(attempt, len(FENCES_AHEAD) - 1)]
        created = [engine.create(position, record) for position in range(first + ahead, first - 1, -1)]
        if any(created):
            return
        attempt += 1


def _cut(frame: Sequence[Piece]) -> list[list[Piece]]:
    """Cut the pieces of a frame into equal bodies of at most ``CHUNK_BYTES``, without copying them."""
    total = sum(map(len, frame))
    size = ceil(total / ceil(total / CHUNK_BYTES))
    bodies: list[list[Piece]] = [[]]
    room = size
    for piece in frame:
        rest = memoryview(piece)
        while rest:
            if not room:
                bodies.append([])
                room = size
            bodies[-1].append(rest[:room])
            room -= len(bodies[-1][-1])
            rest = rest[len(bodies[-1][-1]) :]
    return bodies
