"""Owner of a journal: it fences the one before, appends groups, and confirms them strictly in order.

Several groups may be open at once: their records are created concurrently, each at a position of its own. A group is
durable when all of its chunks are in the journal and every position below them is known: written by this owner, or
read. What another writer has put there is read. A record of a lower epoch, the last word of a fenced owner, is skipped,
and all chunks from there on, of this group and of those after it, are appended again. A fence of a higher epoch ends
this owner: nothing that is not confirmed by then is durable, and nothing is confirmed after it.

An append whose outcome is unknown is repeated until the engine answers, however long that takes: the record at its
position tells whether the first try has succeeded.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from forebay.broker.core.journal_outage import JournalOutage
from forebay.broker.storage.replication.engine import Engine, EngineAway, EngineFull
from forebay.broker.storage.replication.pieces import Piece, Pieces
from forebay.broker.storage.replication.record import Header, RecordDamaged, RecordKind, decode, encode, encode_pieces

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
RETRY_MAX_S: Final = 1.0
UNANSWERED_S: Final = 5.0
"""Duration of an append from which on the engine counts as away, although no request has failed yet."""


class Fenced(Exception):
    """Another owner has taken over or may have, or this one was ended: nothing more is confirmed."""


@dataclass(slots=True, eq=False)
class _Record:
    """Record that is being created."""

    pieces: list[Piece]
    position: int = 0
    created: Future[bool] = field(default_factory=Future)
    """False if a fenced owner has put a record at the position."""

    began_at: float = 0.0
    """Time of the first request for it."""


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """Group that ``Owner.begin`` has begun."""

    number: int
    records: list[_Record]


class Owner:
    """Writer of one epoch.

    ``begin`` is for one thread at a time, and ``finish`` for one, which may be another. Of the rest ``end``,
    ``away_since`` and ``outage`` are for any thread, and what appends is called while no group is open.
    """

    def __init__(self, engine: Engine, epoch: int, identity: bytes, position: int, clock: Callable[[], float]) -> None:
        """``position`` is after the fence of ``epoch`` and known to be the end, see ``fence``.

        ``clock`` is monotonic and counts the time in which the machine is suspended, in seconds.
        """
        self._engine: Final = engine
        self._epoch: Final = epoch
        self._identity: Final = identity
        self._position = position
        self._clock = clock
        self._next_group = 0
        self._groups = 0
        self._ended = threading.Event()
        self._fenced = ""
        self.appended_bytes = 0
        """Bytes of the records that this owner has appended, or appends."""
        self._threads = ThreadPoolExecutor(CHUNKS_AT_ONCE, thread_name_prefix="forebay-journal")
        self.confirmed_at = clock()
        """Time at which the last append that is confirmed began."""
        self.away_since: float | None = None
        """Time since when the engine does not answer; None while it does."""
        self._away_cause: EngineAway | None = None
        """Last failure since then."""
        self.free_bytes: int | None = None
        """Free bytes of the engine's device as of the last append, None if they are not known. Any thread."""
        self._positions = threading.Lock()  # held while records get their positions, also by the wait of a repetition
        self._open: deque[_Record] = deque()
        """Records that are not confirmed, by rising position."""
        self._waiting_since: float | None = None
        """Time of the last confirmation, or of the begin after it, while a group is open; None while none is."""
        self.resends = 0
        """Requests for a record that failed, and were or will be repeated. Any thread."""
        self._away_lock = threading.Lock()
        """Protects ``resends``, ``away_since`` and its cause, which the threads set that put records."""

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
        return self._groups

    def outage(self, reserve_bytes: int = 0) -> JournalOutage | None:
        """Return the outage of the engine as of now, None while it answers and has ``reserve_bytes`` of room."""
        with self._away_lock:
            since, cause = self.away_since, self._away_cause
        if since is not None:
            return JournalOutage(isinstance(cause, EngineFull), self._clock() - since, str(cause))
        waiting_since = self._waiting_since
        if waiting_since is not None and (seconds := self._clock() - waiting_since) >= UNANSWERED_S:
            return JournalOutage(False, seconds, "an append has no answer yet")
        free = self.free_bytes
        if free is not None and free < reserve_bytes:
            return JournalOutage(True, 0.0, f"{free} bytes are free, {reserve_bytes} are reserved")
        return None

    def begin(self, frame: Pieces) -> OpenGroup:
        """Begin to append a batch frame as the next group, without a wait for the engine.

        Raises ``Fenced``.
        """
        bodies = frame.cut(CHUNK_BYTES)
        headers = [
            Header(RecordKind.CHUNK, self._epoch, self._identity, self._next_group, chunk, len(bodies))
            for chunk in range(len(bodies))
        ]
        opened = self._begin([encode_pieces(header, body) for header, body in zip(headers, bodies, strict=True)])
        group, self._next_group = OpenGroup(self._next_group, opened), self._next_group + 1
        return group

    def finish(self, group: OpenGroup) -> int:
        """Return the position after a group once it is durable.

        Groups are finished in the order in which they began. Blocks while the engine does not answer. Raises
        ``Fenced``.
        """
        self._finish(group.records)
        self._groups = group.number + 1
        return group.records[-1].position + 1

    def append(self, frame: Pieces) -> int:
        """Append a batch frame as one group; returns the position after it once it is durable.

        Raises as ``finish``.
        """
        return self.finish(self.begin(frame))

    def release(self, successor: str = "") -> None:
        """Append the orderly end of this owner. Raises as ``append`` does.

        ``successor`` takes over at once: an endpoint, ``ANY_OTHER``, or empty for any broker, also this one.
        """
        header = Header(RecordKind.RELEASE, self._epoch, self._identity, self._groups)
        self._finish(self._begin([encode(header, [successor.encode()])]))

    def export(self, to: str) -> None:
        """Append the end of the journal, whose store continues at ``to``, empty for nowhere.

        Raises as ``append`` does.
        """
        header = Header(RecordKind.EXPORT, self._epoch, self._identity, self._groups)
        self._finish(self._begin([encode(header, [to.encode()])]))

    def end(self) -> None:
        """End the waits for an engine that does not answer; appends raise ``Fenced`` then. Any thread."""
        self._ended.set()

    def close(self) -> None:
        """End the threads."""
        self.end()
        self._threads.shutdown()

    def _begin(self, records: list[list[Piece]]) -> list[_Record]:
        """Begin to create records at the next positions. Raises ``Fenced``."""
        with self._positions:
            if self._fenced:
                raise Fenced(self._fenced)
            if self._waiting_since is None:
                self._waiting_since = self._clock()
            opened = [_Record(pieces) for pieces in records]
            self._open.extend(opened)
            for record in opened:
                self._create(record)
        return opened

    def _create(self, record: _Record) -> None:
        record.position, self._position = self._position, self._position + 1
        record.created = Future()
        self.appended_bytes += sum(map(len, record.pieces))
        try:
            record.created = self._threads.submit(self._put, record)
        except RuntimeError as failure:  # no thread can be started
            self._fenced = f"the request of a record could not begin: {failure}"
            record.created.set_exception(Fenced(self._fenced))

    def _finish(self, records: list[_Record]) -> None:
        """Confirm the oldest open records in order. Raises ``Fenced``."""
        try:
            for record in records:
                if record is not self._open[0]:
                    raise Fenced(self._fenced or "a group before this one was not confirmed")
                while not record.created.result():
                    self._create_again()
                self._open.popleft()
                self.confirmed_at = record.began_at
                self._waiting_since = self._clock()
        except Fenced:
            with self._positions:
                wait([record.created for record in self._open])  # no request is left behind
            self._waiting_since = None
            raise
        self._note_room()
        with self._positions:
            if not self._open:
                self._waiting_since = None

    def _create_again(self) -> None:
        """Create all open records again, after every position that is taken. Raises ``Fenced``.

        Readers skip those that are there already: they follow one that is missing.
        """
        with self._positions:
            for record in self._open:
                record.created.result()  # every position below the next one is known from here on, and none is a fence
            for record in self._open:
                self._create(record)

    def _note_room(self) -> None:
        """Look how much room the engine has. The one that appends waits for the engine anyway."""
        with suppress(EngineAway):  # the next append finds it, and waits
            self.free_bytes = self._engine.free_bytes()

    def _put(self, record: _Record) -> bool:
        """Put a record at its position; returns False if a fenced owner has put one there.

        Raises ``Fenced``.
        """
        position, pieces = record.position, record.pieces
        record.began_at, delay_s = self._clock(), RETRY_FIRST_S
        while True:
            if self._ended.is_set():
                raise Fenced("this owner was ended")
            if self._fenced:
                raise Fenced(self._fenced)
            try:
                created = self._engine.create(position, pieces) or self._is_own(position, pieces)
            except EngineAway as away:
                self._note_away(away)
                self._ended.wait(delay_s)
                delay_s = min(2 * delay_s, RETRY_MAX_S)
                continue
            self._note_answer()
            return created

    def _note_away(self, cause: EngineAway) -> None:
        with self._away_lock:
            self.resends += 1
            before, self._away_cause = self._away_cause, cause
            if self.away_since is None:
                self.away_since = self._clock()
        if before is None or before.event != cause.event:
            _log.error("journal %s, appends wait journal=%s cause=%s", cause.event, self._engine.address, cause.cause)

    def _note_answer(self) -> None:
        with self._away_lock:
            since, self.away_since, self._away_cause = self.away_since, None, None
        if since is not None:
            away_s = self._clock() - since
            _log.warning("journal answers again journal=%s seconds=%.1f", self._engine.address, away_s)

    def _is_own(self, position: int, pieces: list[Piece]) -> bool:
        """Tell whether the record at a taken position is the one of ``pieces``. Raises ``Fenced``."""
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
        return found == b"".join(pieces)


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
