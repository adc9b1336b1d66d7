"""Ranges of the numbers in requests: each can be stored and shown.

The fields of each call come from its descriptor, so that a new field is checked without a change here. Narrower ranges
are checked where a number is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from forebay.broker.core.errors import BrokerError
from forebay.errors.reasons import Reason

NUMBER_MAX: Final = (1 << 63) - 1
"""Largest unsigned 64-bit number: Spark's offsets are signed, and one above each has to fit."""
TIME_S: Final = (-62_135_596_800, 253_402_300_799)
"""Of a Timestamp: the years 1 to 9999."""
DURATION_S: Final = (-315_576_000_000, 315_576_000_000)
"""Of a Duration: 10,000 years."""
_SECONDS: Final = {"google.protobuf.Timestamp": TIME_S, "google.protobuf.Duration": DURATION_S}
_NANOS: Final = {
    "google.protobuf.Timestamp": (0, 999_999_999),
    "google.protobuf.Duration": (-999_999_999, 999_999_999),
}
_MANY: Final = frozenset({"OffsetRange", "Record", "StagedPart", "Attempt"})
"""Messages that repeat in thousands: ``convert`` checks their numbers in the pass that uses them."""


def check_number(value: int, field: str) -> None:
    """Raise ``NUMBER_OUT_OF_RANGE`` for an unsigned number of 64 bits that is above ``NUMBER_MAX``."""
    if value > NUMBER_MAX:
        raise BrokerError(Reason.NUMBER_OUT_OF_RANGE, field=field, found=value, low=0, high=NUMBER_MAX)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Fields of a message with numbers, in themselves or in sub-messages."""

    plain: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    mapped: tuple[str, ...] = ()
    """Maps to numbers."""

    times: tuple[tuple[str, str], ...] = ()
    """Field and full name of its type."""

    inside: tuple[tuple[str, Numbers], ...] = ()
    inside_repeated: tuple[tuple[str, Numbers], ...] = ()

    def __bool__(self) -> bool:
        return any((self.plain, self.repeated, self.mapped, self.times, self.inside, self.inside_repeated))

    def check(self, message: Any, path: str = "") -> None:
        """Raise ``NUMBER_OUT_OF_RANGE`` for the first number of a message that is beyond its range."""
        for name in self.plain:
            if getattr(message, name) > NUMBER_MAX:
                check_number(getattr(message, name), path + name)
        for name in self.repeated:
            _check_all(getattr(message, name), path + name)
        for name in self.mapped:
            _check_all(getattr(message, name).values(), path + name)
        for name, kind in self.times:
            if message.HasField(name):
                _check_time(getattr(message, name), kind, path + name)
        for name, numbers in self.inside:
            if message.HasField(name):
                numbers.check(getattr(message, name), f"{path}{name}.")
        for name, numbers in self.inside_repeated:
            for each in getattr(message, name):
                numbers.check(each, f"{path}{name}.")


def _check_all(values: Iterable[int], field: str) -> None:
    for value in values:
        if value > NUMBER_MAX:
            check_number(value, field)


def _check_time(value: Any, kind: str, field: str) -> None:
    for name, (low, high) in (("seconds", _SECONDS[kind]), ("nanos", _NANOS[kind])):
        if not low <= getattr(value, name) <= high:
            raise BrokerError(
                Reason.NUMBER_OUT_OF_RANGE, field=f"{field}.{name}", found=getattr(value, name), low=low, high=high
            )


def numbers_of(message: Any, around: tuple[Any, ...] = ()) -> Numbers:
    """Return the fields of a descriptor that hold numbers. Recursive messages are left out."""
    plain: list[str] = []
    repeated: list[str] = []
    mapped: list[str] = []
    times: list[tuple[str, str]] = []
    inside: list[tuple[str, Numbers]] = []
    inside_repeated: list[tuple[str, Numbers]] = []
    for each in message.fields:
        kind = each.message_type
        if kind is None:
            if each.type == FieldDescriptor.TYPE_UINT64:
                (repeated if each.is_repeated else plain).append(each.name)
        elif kind.GetOptions().map_entry:
            if kind.fields_by_name["value"].type == FieldDescriptor.TYPE_UINT64:
                mapped.append(each.name)
        elif kind.full_name in _SECONDS and not each.is_repeated:
            times.append((each.name, kind.full_name))
        elif kind not in (*around, message) and not (each.is_repeated and kind.name in _MANY):
            found = numbers_of(kind, (*around, message))
            if found:
                (inside_repeated if each.is_repeated else inside).append((each.name, found))
    return Numbers(tuple(plain), tuple(repeated), tuple(mapped), tuple(times), tuple(inside), tuple(inside_repeated))
