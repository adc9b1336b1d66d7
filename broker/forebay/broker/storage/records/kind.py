"""Kinds of stored values: key layout, value codec, lifetime, and repair, in one value per kind.

A kind is defined in a file below this folder, together with the kinds that are written and deleted with it, and listed
in ``registry``, from which all code that handles every kind is derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, TypeAlias

from forebay.broker.core.writes import Write
from forebay.broker.storage.records.key_layout import KeyLayout, Span
from forebay.broker.storage.records.sealed import Codec, Undecodable, V
from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Operation, Put
from forebay.broker.storage.stored_sink import StoredSink

Operations: TypeAlias = Callable[[Any], list[Operation]]
"""Operations of the store for a write of the core."""


class Replaced(NamedTuple):
    """Repair of a damaged value at a start."""

    detail: str
    """For the report, about the value with the name of its kind."""

    value: Any = None
    """Value that replaces the damaged one; None if there is none."""

    write: Write | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind(KeyLayout, Generic[V]):
    """One kind of stored value."""

    name: str
    """Name in reports and in the documentation."""

    codec: Codec[V]
    family: Family = Family.META
    lives: str
    """Lifetime, for the documentation."""

    damaged: str
    """Repair of a damaged value at a start, for the documentation."""

    at_start: bool = True
    """True if a start reads all values of the kind."""

    surveyed: bool = False
    """True if a start surveys the partition of a damaged value; see ``repair.partitions``."""

    into: Callable[[StoredSink], dict[Any, Any]] | None = None
    """Field of ``StoredSink`` that gets the values."""

    index: Callable[[tuple[Any, ...]], Any] = itemgetter(1)
    """Place of a value in ``into``, by the parts of its key."""

    replaced: Callable[..., Replaced] | None = None
    """Repair of a damaged value by the parts of its key, where it needs no other value."""

    puts: type[Write] | None = None
    """Write that sets a value, its last field. The parts of the key are fields of either."""

    empty_is_deleted: bool = False
    """An empty value is deleted by ``puts``."""

    drops: type[Write] | None = None
    """Write that deletes a value. The parts of the key are its fields, or those of its last field."""

    writes: Mapping[type[Write], Operations] = field(default_factory=dict)
    """Other writes that this kind is responsible for."""

    @property
    def of_store(self) -> bool:
        """True if there is a single value, of the store as a whole."""
        return not self.layout

    def sink_of(self, key: bytes) -> int:
        """Return the sink of a key of the meta family."""
        return int.from_bytes(key[1:5], "big")

    def decoded(self, value: bytes) -> V | None:
        """Return a stored value, None if it is damaged."""
        try:
            return self.codec.decode(value)
        except Undecodable:
            return None

    def load(self, sink: StoredSink, key: bytes, value: bytes) -> None:
        """Add a value to the state of its sink. Raises ``Undecodable``."""
        assert self.into is not None, self.name
        self.into(sink)[self.index(self.parts(key))] = self.codec.decode(value)

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
            yield self.puts, self._putting(self.puts)
        if self.drops is not None:
            *_, last = names = [each.name for each in fields(self.drops)]
            parts_of = _reader([name if name in names else f"{last}.{name}" for name in self.names])
            yield self.drops, lambda write: [self.delete(self.key(*parts_of(write)))]

    def _putting(self, write_type: type[Write]) -> Operations:
        *names, last = [each.name for each in fields(write_type)]
        parts_of = _reader([name if name in names else f"{last}.{name}" for name in self.names])
        value_of = attrgetter(last)

        def operations(write: Write) -> list[Operation]:
            key, value = self.key(*parts_of(write)), value_of(write)
            return [self.delete(key) if self.empty_is_deleted and not value else self.put(key, value)]

        return operations


def _reader(paths: list[str]) -> Callable[[Write], tuple[Any, ...]]:
    """Return a function that reads attributes of a write."""
    if len(paths) > 1:
        return attrgetter(*paths)
    values = [attrgetter(path) for path in paths]
    return lambda write: tuple(value_of(write) for value_of in values)


def place_of(key: bytes) -> tuple[int, int]:
    """Return sink and partition of a key of the meta family that begins with them."""
    return int.from_bytes(key[1:5], "big"), int.from_bytes(key[5:9], "big")
