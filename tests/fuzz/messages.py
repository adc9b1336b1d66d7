"""Requests made from their descriptors, and what becomes of their bytes on a bad day."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor

from tests.fuzz import pages
from tests.fuzz.chance import SIGNED, Chance

_TIMES: Final = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration"})
_DEPTH_MAX: Final = 6
_LEFT_OUT: Final = {"sink": 40, "name": 40, "page": 40}
"""Fields without which a request comes nowhere are left out once in so many times, others once in four."""
_MANY: Final = 500


def message(chance: Chance, kind: Any, depth: int = 0) -> Any:
    """Return a message of a type, every field of it drawn."""
    made = message_factory.GetMessageClass(kind)()
    if kind.full_name in _TIMES:
        _time(chance, made)
        return made
    if kind.full_name == "forebay.v1.PublishPage":
        return pages.page(chance)
    chosen = {oneof.name: chance.one(None, *oneof.fields) for oneof in kind.oneofs}
    for field in kind.fields:
        oneof = field.containing_oneof
        if (chosen[oneof.name] is not field) if oneof is not None else chance.once_in(_LEFT_OUT.get(field.name, 4)):
            continue
        if field.is_repeated:
            _repeat(chance, made, field, depth)
        elif field.message_type is not None:
            if depth < _DEPTH_MAX:
                getattr(made, field.name).CopyFrom(message(chance, field.message_type, depth + 1))
        else:
            setattr(made, field.name, chance.value(field))
    return made


def _time(chance: Chance, made: Any) -> None:
    if not chance.once_in(3):
        made.seconds, made.nanos = chance.one(0, 1, 5, 30, 60, 600, 1_800_000_000), chance.one(0, 0, 500_000_000)
        return
    made.seconds = chance.one(*SIGNED) if chance.once_in(2) else chance.one(0, 1, 5, 30, 60, 600, 1_800_000_000)
    made.nanos = chance.one(0, 0, 1, -1, 500_000_000, 999_999_999, 1_000_000_000, (1 << 31) - 1, -(1 << 31))


def _repeat(chance: Chance, made: Any, field: FieldDescriptor, depth: int) -> None:
    values = getattr(made, field.name)
    count = _MANY if depth < 2 and chance.once_in(200) else chance.one(0, 1, 1, 2, 3, 12)
    for _ in range(count):
        if field.message_type is None:
            values.append(chance.value(field))
        elif field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            values[chance.one(0, 1, 2) if chance.once_in(2) else chance.value(key)] = chance.value(value)
        else:
            values.append(message(chance, field.message_type, depth + 1))


def wire(chance: Chance, made: Any) -> bytes:
    """Return the bytes of a message; of one in twelve some are wrong."""
    data: bytes = made.SerializeToString()
    if not chance.once_in(12):
        return data
    wrong: bytes = chance.one(
        lambda: flipped(chance, data),
        lambda: data[: chance.random.randrange(len(data) + 1)],
        lambda: b"\x0a\x04\xff\xfe\xfd\xfc" + data,  # no UTF-8
        lambda: data + b"\xf8\x7f" + b"\xff" * 9 + b"\x01",  # an unknown field
        lambda: data + bytes([chance.random.randrange(1, 16) << 3 | 2, 0]) * chance.one(100, 5_000, 50_000),
        lambda: data + b"\x0b\x0c",  # a group
        lambda: (b"\x12\x64" * 50)[:100],
        chance.octets,
    )()
    return wrong


def flipped(chance: Chance, data: bytes) -> bytes:
    """Return bytes of which a few are others."""
    found = bytearray(data)
    for _ in range(chance.one(1, 2, 5) if found else 0):
        found[chance.random.randrange(len(found))] = chance.one(0, 255, 127, 128, chance.random.randrange(256))
    return bytes(found)
