"""Items of a request, counted from its bytes."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.errors import InvalidRequest, RequestTooLarge
from forebay.broker.rpc.requests.bounds import Bounds
from forebay.broker.rpc.requests.scan import check
from forebay.broker.rpc.requests.shapes import Shape, shape_of
from forebay.v1 import buffer_service_pb2, epoch_service_pb2, record_pb2, sink_service_pb2

COMMIT = shape_of(epoch_service_pb2.CommitEpochRequest.DESCRIPTOR)
BATCH = shape_of(buffer_service_pb2.PublishBatchRequest.DESCRIPTOR)
OPENED = shape_of(buffer_service_pb2.PublishOpened.DESCRIPTOR)
RUN = shape_of(record_pb2.RecordRun.DESCRIPTOR)
STREAM = shape_of(buffer_service_pb2.PublishRequest.DESCRIPTOR)
FEW = Bounds(bytes_max=1 << 20, elements_max=10)


def refused(message: bytes, shape: Shape, bounds: Bounds = FEW) -> RequestTooLarge:
    """Check a message that is over its bounds."""
    with pytest.raises(RequestTooLarge) as caught:
        check(message, shape, bounds)
    return caught.value


def test_empty_messages_are_counted() -> None:
    error = refused(b"\x0a\x00" * 11, COMMIT)

    assert error.facts == {"field": "commits", "found": "11", "bound": "10"}
    assert "11 or more" in str(error)
    assert "at most 10" in str(error)


def test_as_many_as_are_allowed_pass() -> None:
    check(b"\x0a\x00" * 10 + b"\x50\x01" * 20, COMMIT, FEW)


def test_messages_inside_of_messages_count_together() -> None:
    commit = b"\x42\x00" * 5
    message = (b"\x0a" + bytes([len(commit)]) + commit) * 2

    error = refused(message, COMMIT)

    assert error.facts["field"] == "commits.tokens"


def test_repeated_texts_and_entries_of_maps_are_counted() -> None:
    assert refused(b"\x22\x02\x08\x01" * 11, OPENED).facts["field"] == "next_sequences"


def test_a_oneof_that_is_set_again_and_again_is_counted() -> None:
    assert refused(b"\x0a\x00\x12\x00" * 6, STREAM).facts["field"] in {"open", "page"}


def test_elements_that_are_packed_are_counted_by_their_bytes_and_those_that_are_not_one_by_one() -> None:
    refused(b"\x0a\x2c" + bytes(44), RUN)
    refused(b"\x0d\x00\x00\x00\x00" * 11, RUN)
    check(b"\x0a\x28" + bytes(40), RUN, FEW)


def test_a_field_may_have_a_bound_of_its_own() -> None:
    bounds = Bounds(bytes_max=1 << 20, elements_max=1_000, counts={"records": 3})

    error = refused(b"\x12\x00" * 4, BATCH, bounds)

    assert error.facts == {"field": "records", "found": "4", "bound": "3"}


def test_a_field_within_others_may_have_a_bound_of_its_own() -> None:
    bounds = Bounds(bytes_max=1 << 20, elements_max=1_000, counts={"commits.tokens": 3})

    assert refused(b"\x0a\x08" + b"\x42\x00" * 4, COMMIT, bounds).facts["field"] == "commits.tokens"


def test_a_message_with_too_many_bytes_is_not_examined() -> None:
    error = refused(b"\xff" * ((1 << 20) + 1), COMMIT)

    assert error.facts == {"found": str((1 << 20) + 1), "bound": str(1 << 20)}


@pytest.mark.parametrize(
    "start", [b"\x0b", b"\x0c", b"\x0e", b"\x0a\x7f", b"\x0a", b"\xff" * 11, b"\x0d\x00", b"\x80"], ids=bytes.hex
)
def test_a_field_that_cannot_be_parsed_is_refused(start: bytes) -> None:
    padding = b"\x50\x01" * 20

    with pytest.raises(InvalidRequest):
        check(padding + start, COMMIT, FEW)


NUMBERS = st.integers(1, 12)
KINDS = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7])
FIELDS = st.tuples(NUMBERS, KINDS, st.binary(max_size=12)).map(
    lambda field: bytes([field[0] << 3 | field[1]]) + bytes([len(field[2])]) * (field[1] == 2) + field[2]
)


@given(message=st.lists(FIELDS, max_size=12).map(b"".join) | st.binary(max_size=64))
@pytest.mark.parametrize(
    "kind", [epoch_service_pb2.CommitEpochRequest, sink_service_pb2.UpdateSinkRequest, record_pb2.RecordRun]
)
def test_whatever_protobuf_takes_is_counted_as_protobuf_reads_it(kind: type[Message], message: bytes) -> None:
    try:
        found = kind.FromString(message)
    except DecodeError:
        return
    exactly = elements(found)
    bounds = Bounds(elements_max=max(exactly - 1, 0))

    if exactly and len(message) > bounds.harmless_bytes:
        with pytest.raises((RequestTooLarge, InvalidRequest)):
            check(message, shape_of(kind.DESCRIPTOR), bounds)


def elements(message: Message) -> int:
    """Sub-messages and elements of a message that was decoded; at most as many as its bytes have."""
    count = 0
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            count += len(value)
        elif field.message_type is not None:
            count += sum(1 + elements(each) for each in values)
        elif field.is_repeated:
            count += len(value)
    return count
