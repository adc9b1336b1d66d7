"""Fields of a message that can multiply memory."""

from __future__ import annotations

from google.protobuf import struct_pb2

from forebay.broker.rpc.requests.shapes import shape_of
from forebay.v1 import buffer_service_pb2, epoch_service_pb2, record_pb2, sink_service_pb2


def test_sub_messages_and_repeated_fields_are_places_and_plain_fields_are_none() -> None:
    shape = shape_of(epoch_service_pb2.CommitEpochRequest.DESCRIPTOR)

    [commits] = shape.places.values()

    assert commits.path == "commits"
    assert commits.inside is not None
    assert "commits.tokens" in {place.path for place in commits.inside.places.values()}
    assert "sink" not in {place.path for place in commits.inside.places.values()}


def test_entries_of_a_map_are_a_place() -> None:
    shape = shape_of(sink_service_pb2.SinkStats.DESCRIPTOR)
    offsets = shape_of(buffer_service_pb2.PublishOpened.DESCRIPTOR)

    assert "partitions" in {place.path for place in shape.places.values()}
    assert {place.path for place in offsets.places.values()} == {"next_sequences"}


def test_a_packed_element_knows_its_bytes() -> None:
    shape = shape_of(record_pb2.RecordRun.DESCRIPTOR)

    packed = {place.path: place.packed_bytes for place in shape.places.values()}

    assert packed == {"value_lengths": 4, "key_lengths": 4, "event_times_us": 8, "headers": 0}


def test_a_message_inside_itself_ends_the_description() -> None:
    shape = shape_of(struct_pb2.Value.DESCRIPTOR)

    assert shape.places
