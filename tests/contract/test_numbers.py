"""Every number, time and duration of every request is held to its range before anything is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor

from forebay.broker.rpc import convert
from forebay.broker.rpc.requests.reader import reader_of
from forebay.errors.reasons import Reason
from forebay.v1 import record_pb2
from tests.support.refusals import refusal
from tests.support.rules.services import METHODS

TOP = (1 << 64) - 1
CHECKED_WHERE_USED = {"OffsetRange", "Record", "StagedPart", "Attempt"}
"""Repeated in thousands: their converters hold them to the same ranges, or never use them."""
EXTREMES: dict[str, tuple[tuple[str, int], ...]] = {
    "google.protobuf.Timestamp": (("seconds", (1 << 63) - 1), ("seconds", -(1 << 63)), ("nanos", (1 << 31) - 1)),
    "google.protobuf.Duration": (("seconds", (1 << 63) - 1), ("seconds", -(1 << 63)), ("nanos", -(1 << 31))),
}


def fields(
    descriptor: Any, path: tuple[str, ...] = (), around: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Paths of the fields that hold an unsigned number of 64 bits, a time or a duration, each with its field."""
    for field in descriptor.fields:
        kind = field.message_type
        here = (*path, field.name)
        if kind is None:
            if field.type == FieldDescriptor.TYPE_UINT64:
                yield here, field
        elif kind.GetOptions().map_entry:
            if kind.fields_by_name["value"].type == FieldDescriptor.TYPE_UINT64:
                yield here, field
        elif kind.full_name in EXTREMES:
            yield here, field
        elif kind not in (*around, descriptor) and not (field.is_repeated and kind.name in CHECKED_WHERE_USED):
            yield from fields(kind, here, (*around, descriptor))


def placed(message: Any, path: tuple[str, ...]) -> Any:
    """The message that holds the last field of a path, made on the way."""
    for name in path[:-1]:
        inner = getattr(message, name)
        message = inner.add() if hasattr(inner, "add") else inner
        message.SetInParent()
    return message


def cases() -> Iterator[Any]:
    for name, method in METHODS.items():
        for path, field in fields(method.input_type):
            yield pytest.param(name, method.input_type, path, field, id=f"{method.name}.{'.'.join(path)}")


@pytest.mark.parametrize(("method", "request_type", "path", "field"), list(cases()))
def test_a_number_beyond_its_range_is_refused_by_its_name(
    method: str, request_type: Any, path: tuple[str, ...], field: Any
) -> None:
    message_type = message_factory.GetMessageClass(request_type)
    read = reader_of(method, message_type.FromString)
    kind = field.message_type
    for name, value in EXTREMES.get(kind.full_name, (("", TOP),)) if kind is not None else (("", TOP),):
        request = message_type()
        holder = placed(request, path)
        if name:
            setattr(getattr(holder, path[-1]), name, value)
        elif kind is not None:
            getattr(holder, path[-1])[0] = value
        else:
            setattr(holder, path[-1], value)

        with refusal(Reason.NUMBER_OUT_OF_RANGE) as refused:
            read(request.SerializeToString())

        assert refused.value.facts["field"].startswith(".".join(path))
        assert refused.value.facts["found"] == str(value)


def test_ranges_are_held_to_the_same_range_where_they_are_used() -> None:
    beyond = Reason.NUMBER_OUT_OF_RANGE
    for first, last, reason in ((0, TOP, beyond), (TOP, TOP, beyond), (TOP, 0, Reason.INVALID_RANGE)):
        with refusal(reason):
            convert.ranges([record_pb2.OffsetRange(first_offset=first, last_offset=last)])
