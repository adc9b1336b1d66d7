"""Contract of a byte store, independent of the implementation.

A store has sorted keys in four families, independent of sinks, pages and records. State changes by ``commit`` alone: it
adds bulk values, and then applies one atomic batch. Its parts are called by themselves only for the upkeep of one local
store: ``ingest`` adds bulk values and is durable when it returns; ``write`` applies a batch, which is durable once a
later ``sync`` has returned. So an index entry is written after its bulk value, and a crash between the two leaves an
orphaned value, never an entry without a value.

Threads: ``commit``, ``write``, ``sync`` and ``is_ready`` are called by one thread at a time, ``ingest`` by one, which
may be another, ``compact`` by one other, the reads and ``live_bytes`` by any. ``close`` waits for the calls in
progress.

Every call can raise ``StoreClosed``. The other errors are named by the method, see ``errors``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Protocol, TypeAlias


class Family(StrEnum):
    """Family of keys of one layout and lifetime."""

    BULK = "bulk"
    """Values that ``ingest`` added. They are never rewritten by the store.

    They have their own checksums, like those of ``SMALL``: a store returns both unchecked.
    """

    SMALL = "small"
    """Values of the same kind that are too small for a file of their own; ``write`` adds them."""

    INDEX = "index"
    """Index of the values: many small entries, read in order."""

    META = "meta"
    """All other state: few small entries, often overwritten."""


class WriteStall(IntEnum):
    """Degree to which a store holds writes back because its background work is behind."""

    NONE = 0
    SLOWED = 1
    STOPPED = 2


@dataclass(frozen=True, slots=True)
class Put:
    """Set ``key`` to ``value``; an existing value is replaced."""

    family: Family
    key: bytes
    value: bytes

    def __post_init__(self) -> None:
        """Reject bulk, which would make the compaction of small values rewrite large ones."""
        if self.family is Family.BULK:
            raise ValueError("the bulk family is filled by ingest, not by Put")


@dataclass(frozen=True, slots=True)
class PutAll:
    """Set many keys in their order, as a ``Put`` for each does: a batch may have thousands.

    Keys and values are separate sequences, because a tuple for each would burden Python's garbage collector.
    """

    family: Family
    keys: Sequence[bytes]
    values: Sequence[bytes]

    def __post_init__(self) -> None:
        """Reject bulk, as ``Put`` does."""
        if self.family is Family.BULK:
            raise ValueError("the bulk family is filled by ingest, not by PutAll")


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove ``key``, if it exists."""

    family: Family
    key: bytes


@dataclass(frozen=True, slots=True)
class DeleteRange:
    """Remove every key in ``[first, end)``.

    Its cost does not depend on the number of keys, but each uncompacted range slows down reads across it. In ``BULK``
    touching ranges are joined, and removed together with their files.
    """

    family: Family
    first: bytes
    end: bytes

    def __post_init__(self) -> None:
        """Reject a range whose end is below its first key; an empty one removes nothing."""
        check_range(self.first, self.end)


Operation: TypeAlias = Put | PutAll | Delete | DeleteRange
Value: TypeAlias = bytes | tuple[bytes | memoryview, ...]
"""Value to ingest: whole, or as consecutive pieces."""


Marks: TypeAlias = tuple[int, int]
"""Two numbers that a store keeps beside its log."""


class OpenCommit(Protocol):
    """Commit that has begun."""

    def finish(self) -> None:
        """Return once the commit is durable and applied. The commits of a window are finished in their order.

        By one thread at a time. Raises as ``Store.commit``.
        """
        ...


class CommitWindow(Protocol):
    """Commits that are open at once."""

    @property
    def size(self) -> int:
        """Number of commits that may be open."""
        ...

    def begin(self, bulk: Sequence[tuple[bytes, Value]], operations: Sequence[Operation]) -> OpenCommit:
        """Begin a commit, without a wait until it is durable.

        By one thread at a time, which may be another than the one that finishes. Raises as ``Store.commit``.
        """
        ...


class Store(Protocol):
    """Sorted keys and values, durable as each method states."""

    def commit(
        self, bulk: Sequence[tuple[bytes, Value]], operations: Sequence[Operation], *, sync: bool = True
    ) -> None:
        """Add ``bulk`` to ``BULK``, then apply ``operations`` as one atomic batch.

        With ``sync`` both are durable when it returns, else ``operations`` are with a later one. A crash in between
        leaves bulk values without the batch. See ``ingest`` and ``write`` for their rules.

        Raises ``StoreFailed`` or ``StoreNoSpace``, and fences the store.
        """
        ...

    def window(self) -> CommitWindow | None:
        """Return the window of commits; None if each is durable before the next one begins."""
        ...

    def ingest(self, items: Sequence[tuple[bytes, Value]]) -> None:
        """Add ``items`` to ``BULK`` as one file: all of them, durably, or none.

        Keys rise strictly, and are above those of every existing file (``ValueError`` otherwise, without effect).
        Without items there is no file. Other threads are not blocked.

        Raises ``StoreFailed`` or ``StoreNoSpace``, and fences the store.
        """
        ...

    def write(self, operations: Sequence[Operation]) -> None:
        """Apply ``operations`` as one atomic batch; of two on one key the later one wins.

        Readers see it at once. It survives a crash of the process. Until ``sync`` has returned, a crash of the machine
        may lose it and every later batch.

        Raises ``StoreFailed`` or ``StoreNoSpace``, and fences the store.
        """
        ...

    def is_ready(self) -> bool:
        """Return True if a small ``write`` waits for nothing but the disk, as of now. Cheap."""
        ...

    def sync(self) -> None:
        """Make every earlier batch durable. Other threads are not blocked.

        Raises ``StoreFailed`` or ``StoreNoSpace``, and fences the store: writes since the
        last sync may be lost after a restart.
        """
        ...

    def mark(self, marks: Marks) -> None:
        """Store two numbers with the next ``sync``, outside of the log."""
        ...

    def marked(self) -> Marks:
        """Return the marks of the last process, zeros without any.

        After a power loss they may be older than the last ``sync``, never newer.
        """
        ...

    def is_replica(self) -> bool:
        """Return True if another system has every batch: a start repairs no damage of such a store."""
        ...

    def rewrite(self, family: Family, wanted: Sequence[bytes] = ()) -> list[tuple[bytes, bytes]]:
        """Rewrite the readable part of a family without the unreadable one, so that every key is readable.

        Returns the ranges ``[first, end)`` in which keys may be lost, in order; none without damage. A key of
        ``wanted`` in one of them is kept if it can be read singly. Not for ``BULK``. Takes as long as reading the
        family; a crash leaves it unchanged. Called from the thread of ``write``.

        Raises ``StoreUnreadable`` where a read failed for another reason than damage, with nothing changed, and
        ``StoreFailed`` or ``StoreNoSpace``, which fences the store.
        """
        ...

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in their order, ``None`` for a missing one.

        A damaged value of ``BULK`` or ``SMALL`` is returned as it is, so that one flipped bit costs one value and its
        space can still be released. Elsewhere ``StoreCorrupt`` names the first key that cannot be read. Raises
        ``StoreUnreadable`` for a reason other than damage.
        """
        ...

    def prefetch(self, keys: Sequence[bytes]) -> None:
        """Start to prefetch these values of ``BULK``, without waiting.

        A hint: it waits for no value, and skips missing and unreadable ones.
        """
        ...

    def is_remote(self, keys: Iterable[bytes]) -> bool:
        """Return whether one of these values of ``BULK`` is not here yet.

        Its read waits for a transfer. Any thread; cheap. ``keys`` are not taken where nothing is remote.
        """
        ...

    def remote_bytes(self) -> int:
        """Return the bytes of ``BULK`` that are not here yet; what is here stays. Any thread; cheap."""
        ...

    def end_transfers(self) -> None:
        """Let transfers end soon: reads that wait for one raise ``StoreUnreadable``. Any thread."""
        ...

    def scan(
        self, family: Family, first: bytes, end: bytes, limit: int, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """Return at most ``limit`` entries of ``[first, end)``: the lowest, or the highest if ``reverse``.

        They come in the order of the scan, so falling if ``reverse``. To continue, scan from the last
        key with a zero byte added, or, in reverse, up to the last key. Other threads may be blocked
        until it returns: keep ``limit`` near 1,000, and of ``BULK`` near 10.

        Raises ``StoreCorrupt`` if a part cannot be read; it never ends early without an error. In reverse that includes
        the key just below ``first``. Raises ``StoreUnreadable`` for a reason other than damage.
        """
        ...

    def compact(self, family: Family, first: bytes, end: bytes) -> None:
        """Release the space of deleted keys in ``[first, end)``. Other threads are not blocked.

        Files outside the range do not change. It reads the values that it removes and can take seconds for a few GiB.
        Raises ``StoreFailed``, also if the store is fenced. A failure does not fence, but after damage in ``INDEX`` or
        ``META`` every write fails.
        """
        ...

    def bulk_keys(self, first: bytes, end: bytes, limit: int, *, here: bool = False) -> list[bytes]:
        """Return the lowest keys of ``BULK`` in ``[first, end)``, at most ``limit``, without values.

        It waits for the transfer of each file that is not here yet, or leaves its keys out where ``here`` is True. Keys
        of a file whose tables are damaged are left out. Raises ``StoreUnreadable``.
        """
        ...

    def highest_keys(self) -> list[bytes]:
        """Return the largest key of each file of ``BULK``, in any order, from the names of the files.

        A key may have been deleted since: files keep their bounds until they are removed. A file whose write a crash
        interrupted is included. Used at a start.
        """
        ...

    def live_bytes(self) -> int:
        """Return the bytes of the store on its device, including logs and files not yet compacted.

        Raises ``StoreUnreadable``.
        """
        ...

    def free_bytes(self) -> int:
        """Return the bytes of the device that are free for this process. Cheap.

        Raises ``StoreUnreadable``.
        """
        ...

    def write_stall(self) -> WriteStall:
        """Return whether the store holds writes back. Cheap."""
        ...

    def write_stall_s(self) -> float | None:
        """Return the seconds for which writes were held back since the store was opened. Cheap.

        A write that is held back counts when it continues. None if the time is not known.
        """
        ...

    def close(self) -> None:
        """Close the store and release its directory. A second call has no effect.

        It is not a ``sync``: writes that must be durable are synced before.
        """
        ...


def check_range(first: bytes, end: bytes) -> None:
    """Raise ``ValueError`` unless ``first`` is not above ``end``."""
    if first > end:
        raise ValueError(f"the end of the range [{first.hex()}, {end.hex()}) is below its first key")


def check_scan(first: bytes, end: bytes, limit: int) -> None:
    """Raise ``ValueError`` unless the arguments are those of a bounded scan."""
    check_range(first, end)
    if limit < 1:
        raise ValueError(f"limit is {limit}; it must be at least 1")


def check_ingest(items: Sequence[tuple[bytes, Value]], highest: bytes | None) -> None:
    """Raise ``ValueError`` unless the keys rise strictly, from above ``highest`` on."""
    before = highest
    for position, (key, _) in enumerate(items):
        if before is not None and before >= key:
            raise ValueError(f"key {key.hex()} at position {position} is not above the one before")
        before = key
