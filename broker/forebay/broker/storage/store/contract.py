"""Contract of a byte store, independent of the implementation.

A store keeps sorted keys in four families and knows nothing of sinks, pages or records. It has two
ways in. ``ingest`` takes bulk and is durable when it returns. ``write`` takes one atomic batch and is
durable once a later ``sync`` has returned. So a key that names bulk is written after the bulk, and a
crash between the two leaves bytes without a name, never a name without bytes.

Threads: ``ingest``, ``write`` and ``sync`` are called from one thread, ``compact`` from one other, the
reads and ``live_bytes`` from any. ``close`` waits for the calls under way.

Every call can raise ``StoreClosed``. The other errors are named by the method, see ``errors``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence


class Family(StrEnum):
    """Keys that live and are laid out alike."""

    BULK = "bulk"
    """Values that came in by ``ingest``, and nothing else. They are never rewritten unasked.

    They carry their own checksums, as those of ``SMALL`` do: a store gives both back as it finds them.
    """

    SMALL = "small"
    """The same sort of value, but too small for a file of its own: it came in by ``write``."""

    INDEX = "index"
    """Index of the values: many small entries, read in order."""

    META = "meta"
    """All other state: few small entries, often overwritten."""


@dataclass(frozen=True, slots=True)
class Put:
    """Set ``key`` to ``value``, whether or not it was there."""

    family: Family
    key: bytes
    value: bytes

    def __post_init__(self) -> None:
        """Refuse bulk, which would make the compaction of small values rewrite large ones."""
        if self.family is Family.BULK:
            raise ValueError("the bulk family is filled by ingest, not by Put")


@dataclass(frozen=True, slots=True)
class PutAll:
    """Set many keys, as a ``Put`` for each does in their order: a batch may have thousands of one sort.

    Keys and values stand apart, because a pair each would be work for Python's garbage collection.
    """

    family: Family
    keys: Sequence[bytes]
    values: Sequence[bytes]

    def __post_init__(self) -> None:
        """Refuse bulk, as ``Put`` does."""
        if self.family is Family.BULK:
            raise ValueError("the bulk family is filled by ingest, not by PutAll")


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove ``key``; nothing happens when it is not there."""

    family: Family
    key: bytes


@dataclass(frozen=True, slots=True)
class DeleteRange:
    """Remove every key in ``[first, end)``.

    Its cost does not depend on how many keys there are, but each one outstanding slows reads that
    cross it. In ``BULK`` ranges that touch become one, and are forgotten when the files that they meet are gone.
    """

    family: Family
    first: bytes
    end: bytes

    def __post_init__(self) -> None:
        """Refuse a range that runs backwards; an empty one removes nothing."""
        check_range(self.first, self.end)


Operation: TypeAlias = Put | PutAll | Delete | DeleteRange
Value: TypeAlias = bytes | tuple[bytes | memoryview, ...]
"""A value to be ingested: whole, or in pieces that stand one behind the other."""


Marks: TypeAlias = tuple[int, int]
"""Two numbers that a store keeps beside its log."""


class Store(Protocol):
    """Sorted bytes, durable when it says so."""

    def ingest(self, items: Sequence[tuple[bytes, Value]]) -> None:
        """Add ``items`` to ``BULK`` as one file: all of them, durably, or none.

        Keys rise strictly, and are above those of every file that is there (``ValueError`` otherwise, with
        nothing done). No items, no file. Other threads run meanwhile.

        Raises ``StoreFailed`` or ``StoreNoSpace``, and fences the store.
        """
        ...

    def write(self, operations: Sequence[Operation]) -> None:
        """Apply ``operations`` as one atomic batch; where two touch a key, the later one wins.

        Readers see it at once. A crash of the process keeps it; a crash of the machine may lose it,
        and then every later batch too, until ``sync`` has returned.

        Raises ``StoreFailed`` or ``StoreNoSpace``, and fences the store.
        """
        ...

    def sync(self) -> None:
        """Make every batch written before durable. Other threads run meanwhile.

        Raises ``StoreFailed`` or ``StoreNoSpace``, and fences the store: what was written since the
        last sync may or may not be there after a restart.
        """
        ...

    def mark(self, marks: Marks) -> None:
        """Keep two numbers, from the next ``sync`` on, in a place that damage of the log does not reach."""
        ...

    def marked(self) -> Marks:
        """Return the numbers that the process before kept, zeros where there are none.

        After a power loss they may be older than the last ``sync``, never newer.
        """
        ...

    def rewrite(self, family: Family, wanted: Sequence[bytes] = ()) -> list[tuple[bytes, bytes]]:
        """Rewrite the readable part of a family without the unreadable one, so that every key is readable.

        Returns the ranges ``[first, end)`` in which keys may have been left out, in order; none, where nothing was
        damaged. A key of ``wanted`` that stands in one of them is kept if it can be read by itself. Not for ``BULK``.
        Takes as long as reading the family; a crash leaves all as it was. Called where ``write`` is.

        Raises ``StoreUnreadable`` where a read failed for another reason than damage, with nothing changed, and
        ``StoreFailed`` or ``StoreNoSpace``, which fences the store.
        """
        ...

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in their order, ``None`` where there is none.

        A damaged value of ``BULK`` or ``SMALL`` comes back damaged, so that one bit costs one value
        and its space can still be given back. Elsewhere ``StoreCorrupt`` names the first key that
        cannot be read. Raises ``StoreUnreadable`` where the reason is not damage.
        """
        ...

    def expect(self, keys: Sequence[bytes]) -> None:
        """Let the system begin to read these values of ``BULK``, which will be asked for soon.

        A hint: it waits for no value, and passes over what is not there or cannot be read.
        """
        ...

    def scan(
        self, family: Family, first: bytes, end: bytes, limit: int, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """Return at most ``limit`` entries of ``[first, end)``: the lowest, or the highest if ``reverse``.

        They come in the order they were met, so falling if ``reverse``. To go on, scan from the last
        key with a zero byte added, or, in reverse, up to the last key. Other threads may stand still
        meanwhile: keep ``limit`` near 1,000, and of ``BULK`` near 10.

        Raises ``StoreCorrupt`` where a part cannot be read; it never ends early in silence. In
        reverse that includes what stands just below ``first``. Raises ``StoreUnreadable`` where the
        reason is not damage.
        """
        ...

    def compact(self, family: Family, first: bytes, end: bytes) -> None:
        """Give the space of what was deleted in ``[first, end)`` back. Other threads run meanwhile.

        Files outside the range stay as they are. It reads what it drops and can take seconds for a
        few GiB. Raises ``StoreFailed``; it is refused once fenced. It does not fence, but where it
        met damage in ``INDEX`` or ``META``, every write fails from then on.
        """
        ...

    def bulk_keys(self, first: bytes, end: bytes, limit: int) -> list[bytes]:
        """Return the lowest keys of ``BULK`` in ``[first, end)``, at most ``limit``, without values.

        What stands in a file whose tables are damaged is left out. Raises ``StoreUnreadable``.
        """
        ...

    def highest_keys(self) -> list[bytes]:
        """Return the largest key of each file of ``BULK``, in any order, from the names of the files.

        It may have been deleted since: files keep their bounds until they are gone. Also a file is named that was
        being written when the process died. Meant for the start.
        """
        ...

    def live_bytes(self) -> int:
        """Return the bytes the store takes up, logs and files not yet compacted included.

        Raises ``StoreUnreadable``.
        """
        ...

    def free_bytes(self) -> int:
        """Return the bytes of the store's device that are free for this process. Cheap.

        Raises ``StoreUnreadable``.
        """
        ...

    def close(self) -> None:
        """Give up the store; another may open it when this returns. Closing twice does nothing.

        It is not a ``sync``: whatever must be durable is synced before.
        """
        ...


def check_range(first: bytes, end: bytes) -> None:
    """Raise ``ValueError`` unless ``[first, end)`` runs forward or is empty."""
    if first > end:
        raise ValueError(f"range [{first.hex()}, {end.hex()}) runs backwards")


def check_scan(first: bytes, end: bytes, limit: int) -> None:
    """Raise ``ValueError`` unless the arguments are those of a bounded scan."""
    check_range(first, end)
    if limit < 1:
        raise ValueError(f"limit is {limit}, at least 1 is needed")


def check_ingest(items: Sequence[tuple[bytes, Value]], highest: bytes | None) -> None:
    """Raise ``ValueError`` unless the keys rise strictly, from above ``highest`` on."""
    before = highest
    for position, (key, _) in enumerate(items):
        if before is not None and before >= key:
            raise ValueError(f"key {key.hex()} at position {position} does not rise")
        before = key
