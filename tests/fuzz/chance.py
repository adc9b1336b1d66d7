"""Values for the fields of requests: usual ones, ones at their bounds, and unexpected ones.

A fuzzer that sends only nonsense never gets past the first check. So most values are of things that exist: names of
sinks, owner epochs from a delivery, tickets that were issued.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from forebay.v1 import sink_pb2

SINKS: Final = ("disk", "relaxed", "spill", "memory", "no-dlq", "drop", "rows", "no-fsync", "disk.dlq", "relaxed.dlq")
SUBSCRIPTIONS: Final = ("", "default", "first", "second")
ODD_TEXTS: Final = (
    *(
        "",
        "\x00",
        "a\nb",
        "\x1b[31m",
        "..",
        "../../etc/passwd",
        "a" * 200,
        "x" * 70_000,
        "é" * 50,
        "A-B",
        "disk/",
        "none",
    ),
    *(
        "0",
        "-1",
        ":",
        "1:2",
        "0:1:first",
        "9" * 5_000,
        "٣",
        "\u202e",
        "%s%n",
        "default",
        "1-2-3",
        "0-0-18446744073709551616",
    ),
)
UNSIGNED: Final = (
    *(0, 1, 2, 3, 5, 10, 255, 256, 65_535, 65_536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40),
    *((1 << 53) + 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1),
)
SIGNED: Final = (
    *(0, 1, -1, 60, 3_600, 86_400, 1_700_000_000, 253_402_300_799, 253_402_300_800, -62_135_596_800, -62_135_596_801),
    *(315_576_000_000, 1 << 31, 1 << 53, 1 << 62, (1 << 63) - 1, -(1 << 63), -(1 << 63) + 1),
)
REALS: Final = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    10.0,
    10.000001,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
    float("-inf"),
)
PATHS: Final = (*(field.name for field in sink_pb2.SinkSettings.DESCRIPTOR.fields), "", "nope", "partitions.x", "\n")
_IDS: Final = frozenset({"consumer_id", "writer_id", "producer", "token", "run", "holder", "write_name"})
_REMEMBERED: Final = 64


class Known:
    """Values that the broker returned, for use in later requests."""

    def __init__(self) -> None:
        self._found: dict[str, deque[Any]] = {}
        self.schemas: list[bytes] = []
        """Arrow schemas that are registered."""

    def learn(self, message: Any) -> None:
        """Remember numbers and names of an answer, by the names of their fields."""
        for field, value in message.ListFields():
            values = value if field.is_repeated else [value]
            if field.message_type is not None and not field.message_type.GetOptions().map_entry:
                for each in list(values)[:8]:
                    self.learn(each)
            elif field.name in _LEARNED:
                self._found.setdefault(_LEARNED[field.name], deque(maxlen=_REMEMBERED)).extend(list(values)[:8])

    def some(self, chance: random.Random, name: str) -> Any:
        """One of the values learned under a name; None when there is none."""
        found = self._found.get(name)
        return chance.choice(found) if found else None


_LEARNED: Final[Mapping[str, str]] = {
    **{name: name for name in ("owner_epoch", "revision", "ticket", "writer_epoch", "incarnation", "account")},
    "next_page_token": "page_token",
    "version": "schema_version",
    "first_offset": "offset",
    "next_offset": "offset",
}
_ASKED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("offset", "first_offset", "last_offset", "start_offset", "end_offset", "until_offset"), "offset"),
    "previous_version": "schema_version",
}


class Chance:
    """Draws values for fields. Two with one seed and the same answers draw the same."""

    def __init__(self, seed: str, known: Known) -> None:
        self.random: Final = random.Random(seed)
        self.known: Final = known

    def once_in(self, times: float) -> bool:
        """Return true once in so many times."""
        return self.random.random() * times < 1

    def one(self, *choices: Any) -> Any:
        """Return one of them."""
        return self.random.choice(choices)

    def octets(self) -> bytes:
        """Return bytes of any length."""
        return self.random.randbytes(self.one(0, 1, 2, 7, 64, 300, 5_000, 70_000))

    def value(self, field: FieldDescriptor) -> Any:
        """Return a value for one element of a field that is no message."""
        return _BY_TYPE[field.type](self, field)

    def text(self, name: str) -> Any:
        """Return a text for a field of that name."""
        if name in {"sink", "name"}:
            usual: Sequence[str] = (*SINKS, *SINKS, *SINKS, f"made-{self.random.randrange(20)}")
        elif name == "subscription":
            usual = SUBSCRIPTIONS
        elif name in _IDS:
            usual = [f"{name[0]}{number}" for number in range(4)]
        elif name == "paths":
            usual = PATHS
        elif name == "traceparent":
            usual = ("", f"00-{'a' * 32}-{'b' * 16}-01", "x" * 128, "y" * 129)
        else:
            found = self.known.some(self.random, name)
            usual = ("", found) if found is not None else ("", "value")
        return self.one(*(ODD_TEXTS if self.once_in(12) else usual))

    def number(self, field: FieldDescriptor, most: int) -> Any:
        """Return a number from 0 to ``most``."""
        found = self.known.some(self.random, _ASKED.get(field.name, field.name))
        if isinstance(found, int) and not self.once_in(3):
            return min(found, most)
        if field.name == "partition" and not self.once_in(5):
            return self.random.randrange(2)
        if not self.once_in(5):
            return self.random.randrange(40)
        return self.one(*(number for number in UNSIGNED if number <= most))


def _enum(chance: Chance, field: FieldDescriptor) -> Any:
    assert field.enum_type is not None, "asked for enums only"
    numbers = [value.number for value in field.enum_type.values]
    return chance.one(*numbers, *numbers, *numbers, 99, -1, (1 << 31) - 1)


def _bytes(chance: Chance, field: FieldDescriptor) -> Any:
    schemas = chance.known.schemas
    if field.name == "arrow_schema" and schemas and not chance.once_in(3):
        return chance.one(*schemas)
    return chance.octets()


_BY_TYPE: Final[Mapping[int, Callable[[Chance, FieldDescriptor], Any]]] = {
    FieldDescriptor.TYPE_STRING: lambda chance, field: chance.text(field.name),
    FieldDescriptor.TYPE_BYTES: _bytes,
    FieldDescriptor.TYPE_BOOL: lambda chance, _: chance.once_in(2),
    FieldDescriptor.TYPE_DOUBLE: lambda chance, _: chance.one(*REALS),
    FieldDescriptor.TYPE_FLOAT: lambda chance, _: chance.one(*REALS),
    FieldDescriptor.TYPE_ENUM: _enum,
    **{
        kind: (lambda chance, field: chance.number(field, (1 << 64) - 1))
        for kind in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)
    },
    **{
        kind: (lambda chance, field: chance.number(field, (1 << 32) - 1))
        for kind in (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32)
    },
    **{
        kind: (lambda chance, _: chance.one(*SIGNED))
        for kind in (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SFIXED64)
    },
    **{
        kind: (lambda chance, _: chance.one(*(number for number in SIGNED if -(1 << 31) <= number < 1 << 31)))
        for kind in (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SFIXED32)
    },
}
