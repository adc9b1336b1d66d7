"""Fields of a message that multiply memory: sub-messages, map entries and elements of repeated fields.

An empty sub-message takes two bytes of a request and about a hundred of memory. Singular sub-messages count too: each
repetition of a oneof field creates a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

_PACKED_BYTES: Final = {
    FieldDescriptor.TYPE_DOUBLE: 8,
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
    FieldDescriptor.TYPE_FLOAT: 4,
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
}
_DELIMITED: Final = frozenset({FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES})


@dataclass(frozen=True, slots=True)
class CountedField:
    """Field whose occurrences count."""

    path: str
    """Dotted names from the request."""

    inside: Shape | None
    """Counted fields inside of it; None without any."""

    packed_bytes: int = 0
    """Bytes of one element of a field that may be packed, else 0."""


@dataclass(slots=True)
class Shape:
    """Counted fields of a message, by number."""

    places: dict[int, CountedField] = field(default_factory=dict)


def shape_of(message: Any, path: str = "", around: tuple[Any, ...] = ()) -> Shape:
    """Return the counted fields of a descriptor. A recursive message counts, and ends there."""
    shape = Shape()
    for each in message.fields:
        if each.message_type is None and not each.is_repeated:
            continue
        name = f"{path}.{each.name}" if path else each.name
        inside = None
        if each.message_type is not None and each.message_type not in (*around, message):
            found = shape_of(each.message_type, name, (*around, message))
            inside = found if found.places else None
        packed = 0 if each.type in _DELIMITED else _PACKED_BYTES.get(each.type, 1)
        shape.places[each.number] = CountedField(name, inside, packed)
    return shape
