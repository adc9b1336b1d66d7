"""Kinds of stored values: key layout, value codec, lifetime, and repair, in one value per kind.

A kind is defined in a file of its own below this folder and listed in ``registry``, from which everything that goes
through all stored values is derived. Integers of keys are big-endian, so keys sort as numbers do. The classes here are
the common key layouts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeAlias

from forebay.broker.core.writes import Write
from forebay.broker.storage.records.sealed import Codec, Undecodable, V
from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Operation, Put
from forebay.broker.storage.stored_sink import StoredSink

Span: TypeAlias = tuple[bytes, bytes]
"""First key, and the key behind the last one."""
Operations: TypeAlias = Callable[[Any], list[Operation]]
"""Operations of the store for a write of the core."""
U32: Final = struct.Struct(">I")
U64: Final = struct.Struct(">Q")
_PAIR: Final = struct.Struct(">II")
_NUMBERED: Final = struct.Struct(">IIQ")


class Replaced(NamedTuple):
    """Repair of a damaged value at a start."""

    detail: str
    """For the report, about the value with the name of its kind."""

    value: Any = None
    """The state goes on with this value; None: without one."""

    write: Write | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind(Generic[V]):
    """One kind of stored value."""

    layout: ClassVar[str]
    """Parts of the key behind the prefix, in words."""

    name: str
    """For people."""

    codec: Codec[V]
    prefix: bytes = b""
    """First byte of its keys. Only kinds of the meta family have one."""

    family: Family = Family.META
    lives: str
    """Lifetime, for people."""

    damaged: str = ""
    """Repair of a damaged value at a start, for people."""

    at_start: bool = True
    """A start reads all of them."""

    surveyed: bool = False
    """The partition of a damaged value is surveyed at a start; see ``repair.partitions``."""

    into: Callable[[StoredSink], dict[Any, Any]] | None = None
    """Values of a sink that a start passes on, by the parts of the key behind the sink."""

    replaced: Callable[[bytes], Replaced] | None = None
    """Repair of the damaged value of a key, where it needs no other value."""

    puts: type[Write] | None = None
    """Write that sets a value: its fields are the parts of the key, then the value."""

    empty_is_deleted: bool = False
    """An empty value is deleted by ``puts``."""

    drops: type[Write] | None = None
    """Write that deletes a value: its fields are the parts of the key."""

    writes: Mapping[type[Write], Operations] = field(default_factory=dict)
    """Other writes that this kind is responsible for."""

    # -- keys

    def key(self, *args: Any, **kwargs: Any) -> bytes:
        """Return the key of a value from the parts of ``layout``."""
        raise NotImplementedError

    def within(self, key: bytes) -> Any:
        """Return the parts of a key behind the sink."""
        raise NotImplementedError

    def sink_of(self, key: bytes) -> int:
        """Return the sink of a key."""
        return int(U32.unpack_from(key, len(self.prefix))[0])

    @property
    def all(self) -> Span:
        """Keys of this kind of the meta family."""
        return self.prefix, bytes([self.prefix[0] + 1])

    def of_sink(self, sink: int) -> Span:
        """Return the keys of a sink."""
        return self.prefix + U32.pack(sink), self.prefix + U32.pack(sink + 1)

    def of_name(self, sink: int, name: str) -> bytes:
        """Return the beginning of keys with a name in the middle: sink u32, length u8, name."""
        encoded = name.encode()
        return self.prefix + U32.pack(sink) + bytes([len(encoded)]) + encoded

    # -- values

    def decoded(self, value: bytes) -> V | None:
        """Return a stored value, None if it is damaged."""
        try:
            return self.codec.decode(value)
        except Undecodable:
            return None

    def take(self, sink: StoredSink, key: bytes, value: bytes) -> None:
        """Add a value to the state of its sink. Raises ``Undecodable``."""
        assert self.into is not None, self.name
        self.into(sink)[self.within(key)] = self.codec.decode(value)

    # -- operations

    def put(self, key: bytes, value: V) -> Put:
        """Return the operation that sets a value."""
        return Put(self.family, key, self.codec.encode(value))

    def delete(self, key: bytes) -> Delete:
        """Return the operation that deletes a value."""
        return Delete(self.family, key)

    def delete_range(self, span: Span) -> DeleteRange:
        """Return the operation that deletes a range of values."""
        return DeleteRange(self.family, *span)

    def operations(self) -> Iterator[tuple[type[Write], Operations]]:
        """Yield the writes of the core that this kind is responsible for."""
        yield from self.writes.items()
        if self.puts is not None:
            *parts, value = (part.name for part in fields(self.puts))
            yield self.puts, self._putting(_parts_of(parts), attrgetter(value))
        if self.drops is not None:
            parts_of = _parts_of([part.name for part in fields(self.drops)])
            yield self.drops, lambda write: [self.delete(self.key(*parts_of(write)))]

    def _putting(self, parts_of: Callable[[Write], tuple[Any, ...]], value_of: Callable[[Write], Any]) -> Operations:
        def operations(write: Write) -> list[Operation]:
            key, value = self.key(*parts_of(write)), value_of(write)
            return [self.delete(key) if self.empty_is_deleted and not value else self.put(key, value)]

        return operations


def _parts_of(names: list[str]) -> Callable[[Write], tuple[Any, ...]]:
    """Return a function that reads some fields of a write."""
    if len(names) > 1:
        return attrgetter(*names)
    values = [attrgetter(name) for name in names]
    return lambda write: tuple(value_of(write) for value_of in values)


def place_of(key: bytes) -> tuple[int, int]:
    """Return sink and partition of a key of the meta family that begins with them."""
    sink, partition = _PAIR.unpack_from(key, 1)
    return sink, partition


class OfStore(Kind[V]):
    """Kind with a single value."""

    layout = ""

    def key(self) -> bytes:
        return self.prefix


class OfSink(Kind[V]):
    """Kind with one value per sink."""

    layout = "sink u32"

    def key(self, sink: int) -> bytes:
        return self.prefix + U32.pack(sink)


class Named(Kind[V]):
    """Kind with one value per name in a sink."""

    layout = "sink u32, name"

    def key(self, sink: int, name: str) -> bytes:
        return self.prefix + U32.pack(sink) + name.encode()

    def within(self, key: bytes) -> str:
        return key[5:].decode()


class OfPartition(Kind[V]):
    """Kind with one value per partition."""

    layout = "sink u32, partition u32"

    def key(self, sink: int, partition: int) -> bytes:
        return self.prefix + _PAIR.pack(sink, partition)

    def within(self, key: bytes) -> int:
        return int(U32.unpack_from(key, 5)[0])


class OfSubscription(Kind[V]):
    """Kind with one value per partition of a subscription."""

    layout = "sink u32, partition u32, subscription"

    def key(self, sink: int, subscription: str, partition: int) -> bytes:
        return self.prefix + _PAIR.pack(sink, partition) + subscription.encode()

    def within(self, key: bytes) -> tuple[str, int]:
        return key[9:].decode(), int(U32.unpack_from(key, 5)[0])


class Numbered(Kind[V]):
    """Kind with one value per number, or offset, in a partition."""

    layout = "sink u32, partition u32, number u64"

    def key(self, sink: int, partition: int, number: int) -> bytes:
        return self.prefix + _NUMBERED.pack(sink, partition, number)

    def within(self, key: bytes) -> tuple[int, int]:
        _, partition, number = _NUMBERED.unpack_from(key, len(self.prefix))
        return partition, number

    def number_of(self, key: bytes) -> int:
        """Return the number of a key: for loops over many."""
        return int(U64.unpack_from(key, -8)[0])

    def between(self, sink: int, partition: int, first: int, end: int) -> Span:
        """Return the keys with numbers in ``[first, end)``."""
        return self.key(sink, partition, first), self.key(sink, partition, end)
