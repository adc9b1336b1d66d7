"""Objects of a topic, by what its messages did to them in the order of their offsets.

Every reader applies the same rule, so that of two writers who create one name all readers see the same one succeed:

- CREATE has an effect unless its name has an object. PUT replaces, DELETE removes.
- CARRY moves an object to later offsets, so that everything before its *base* can be deleted. It has an effect unless
  the object has changed since it came to be, or what is before the base, and more, is cut.
- ABANDON ends a change that is not complete, which otherwise would keep everything after its first part.

A topic that is cut at a base begins with messages whose effect depended on what was cut: a creation that failed then
looks like one that succeeded. So what a reader finds counts only once it has read to the end of the topic, where the
carried objects have set that right. A base is never below the end of an earlier carry for a lower base, nor above the
first part of a change that is not complete, and nothing is cut before all objects below it were carried. A carry is for
a base that was not above the end of the topic when its object was found, so what changed the object since is not cut.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import sub
from typing import Final

from forebay.broker.storage.replication.engines.kafka.objects.message import Header, MessageKind
from forebay.broker.storage.replication.record import HEADER_BYTES

SEPARATOR: Final = b"\n"


@dataclass(frozen=True, slots=True)
class StoredObject:
    """Place of an object."""

    name: str
    origin: int
    """Offset at which it came to be. A carry keeps it."""

    offsets: tuple[int, ...]
    """Offsets of its parts."""

    size: int
    begin: bytes
    """Its first bytes: as many as the header of a journal's record has."""

    @property
    def first(self) -> int:
        """Lowest offset of its parts."""
        return min(self.offsets)


@dataclass(frozen=True, slots=True)
class Change:
    """A change that is complete."""

    writer: int
    number: int
    has_effect: bool


@dataclass(slots=True)
class Incomplete:
    """Parts of a change so far."""

    offsets: dict[int, int] = field(default_factory=dict)
    parts: int = 0
    """Their number, 0 before the last one was read."""

    size: int = 0
    begin: bytes = b""
    names: dict[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableState:
    """All that ``Objects`` knows, at an offset."""

    begin: int
    """First offset that is not cut."""

    base: int
    sizes: array[int]
    """Bytes of each message, from ``begin`` on."""

    objects: list[StoredObject]
    changed: dict[str, int]
    incomplete: dict[tuple[int, int], Incomplete]
    carries: dict[int, int]
    """Offset after the last carry of each base."""

    last: tuple[int, bytes]
    """Offset and key of the last message."""

    @property
    def end(self) -> int:
        """Offset of the next message."""
        return self.begin + len(self.sizes)


class Objects:
    """Objects as of one offset. For one thread at a time."""

    def __init__(self, begin: int) -> None:
        """``begin`` is the first offset of the topic."""
        self._base = begin
        """Least base of a carry that has an effect: others have cut what is needed for lower ones."""
        self._objects: dict[str, StoredObject] = {}
        self._changed: dict[str, int] = {}
        """Offset of the last PUT or DELETE by name, which an older CARRY does not undo."""
        self._incomplete: dict[tuple[int, int], Incomplete] = {}
        self._sizes = array("Q", [0])
        """Bytes of all messages before each offset, from ``begin`` on."""
        self._sizes_begin = begin
        self._carries: dict[int, int] = {}
        """Offset after the last carry of each base."""
        self.live_bytes = 0
        """Bytes of all objects."""
        self.last: tuple[int, bytes | None] | None = None
        """Offset and key of the last message, None before the first one; noted by who takes messages."""

    @classmethod
    def of(cls, state: TableState) -> Objects:
        """Return a table in a state."""
        found = cls(state.begin)
        found._base, found._carries, found.last = state.base, state.carries, state.last
        found._objects = {each.name: each for each in state.objects}
        found._changed, found._incomplete = state.changed, state.incomplete
        found._sizes = array("Q", accumulate(state.sizes, initial=0))
        found.live_bytes = sum(each.size for each in state.objects)
        return found

    def state(self) -> TableState | None:
        """Return a copy of the state, None before the first message of a broker."""
        if self.last is None or self.last[1] is None:
            return None
        return TableState(
            self._sizes_begin,
            self._base,
            array("I", map(sub, self._sizes[1:], self._sizes)),
            list(self._objects.values()),
            dict(self._changed),
            {
                key: replace(one, offsets=dict(one.offsets), names=dict(one.names))
                for key, one in self._incomplete.items()
            },
            dict(self._carries),
            (self.last[0], self.last[1]),
        )

    @property
    def end(self) -> int:
        """Offset of the next message."""
        return self._sizes_begin + len(self._sizes) - 1

    @property
    def begin(self) -> int:
        """First offset that is not cut."""
        return self._sizes_begin

    def get(self, name: str) -> StoredObject | None:
        """Return an object, None for a name without one."""
        return self._objects.get(name)

    def below(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects whose names begin with ``prefix``, in any order."""
        return (found for name, found in self._objects.items() if name.startswith(prefix))

    def all(self) -> Iterator[StoredObject]:
        """Yield all objects, in any order."""
        return iter(self._objects.values())

    def incomplete(self) -> dict[tuple[int, int], int]:
        """Return the first offset of each change that is not complete, by writer and number."""
        return {key: min(one.offsets.values()) for key, one in self._incomplete.items()}

    def last_parts(self) -> dict[tuple[int, int], int]:
        """Return the last offset of each change that is not complete, by writer and number."""
        return {key: max(one.offsets.values()) for key, one in self._incomplete.items()}

    def lowest(self) -> int:
        """Return the lowest offset of all parts of objects and of changes that are not complete."""
        firsts = (found.first for found in self._objects.values())
        return min((self.end, *firsts, *self.incomplete().values()))

    def may_begin_at(self, base: int) -> bool:
        """Return whether readers may begin at a base: no carry for a lower one is after it."""
        return all(end <= base for carried_for, end in self._carries.items() if carried_for < base)

    def bytes_before(self, offset: int) -> int:
        """Return the bytes of the messages from the beginning up to an offset."""
        return self._sizes[offset - self._sizes_begin] - self._sizes[0]

    def bytes_after(self, offset: int) -> int:
        """Return the bytes of the messages after one."""
        return self._sizes[-1] - self._sizes[offset + 1 - self._sizes_begin]

    def cut(self, offset: int) -> None:
        """Forget what was needed for the messages below an offset, which are deleted."""
        if offset <= self._sizes_begin:
            return
        self._sizes = self._sizes[offset - self._sizes_begin :]
        self._sizes_begin = self._base = offset
        self._changed = {name: at for name, at in self._changed.items() if at >= offset}
        self._carries = {base: end for base, end in self._carries.items() if end > offset}
        self._incomplete = {key: one for key, one in self._incomplete.items() if max(one.offsets.values()) >= offset}

    def take(self, header: Header | None, size: int, content: bytes) -> Change | None:
        """Take the next message; returns the change that it completes.

        ``header`` is None for the message of another program. ``content`` are the names of DELETE, else the start of
        the value, whose size is ``size``.
        """
        at = self.end
        self._sizes.append(self._sizes[-1] + size)
        if header is None:
            return None
        if header.kind is MessageKind.ABANDON:
            self._incomplete.pop((header.base, header.origin), None)
            return Change(header.writer, header.number, True)
        parts = self._completed(header, size, content, at)
        if parts is None:
            return None
        return Change(header.writer, header.number, self._effect(header, parts, at))

    def _completed(self, header: Header, size: int, content: bytes, at: int) -> Incomplete | None:
        """Return the parts of a change if this message is the last one that was missing."""
        key = (header.writer, header.number)
        found = self._incomplete.setdefault(key, Incomplete())
        if header.part in found.offsets:
            return None  # Kafka's client has sent it twice
        found.offsets[header.part] = at
        found.parts = max(found.parts, header.parts)
        found.size += size
        if header.part == 0:
            found.begin = content[:HEADER_BYTES]
        if header.kind is MessageKind.DELETE:
            found.names[header.part] = content
        if len(found.offsets) != found.parts:
            return None
        del self._incomplete[key]
        return found

    def _effect(self, header: Header, parts: Incomplete, at: int) -> bool:
        """Return whether a change has an effect, which it gets."""
        offsets = tuple(parts.offsets[part] for part in range(parts.parts))
        match header.kind:
            case MessageKind.CREATE:
                if header.name in self._objects:
                    return False
                self._set(StoredObject(header.name, at, offsets, parts.size, parts.begin))
            case MessageKind.PUT:
                self._changed[header.name] = at
                self._set(StoredObject(header.name, at, offsets, parts.size, parts.begin))
            case MessageKind.CARRY:
                self._carries[header.base] = at + 1
                if header.base < self._base or self._changed.get(header.name, -1) > header.origin:
                    return False
                self._set(StoredObject(header.name, header.origin, offsets, parts.size, parts.begin))
            case MessageKind.DELETE:
                listed = b"".join(parts.names[part] for part in range(parts.parts))
                for name in listed.decode().split(SEPARATOR.decode()):
                    self._changed[name] = at
                    self._remove(name)
        return True

    def _set(self, found: StoredObject) -> None:
        self._remove(found.name)
        self._objects[found.name] = found
        self.live_bytes += found.size

    def _remove(self, name: str) -> None:
        before = self._objects.pop(name, None)
        if before is not None:
            self.live_bytes -= before.size
