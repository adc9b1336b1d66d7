"""Readers of requests, made from the descriptors of the calls."""

from __future__ import annotations

import pytest

from forebay.broker.core.errors import InvalidRequest, RequestTooLarge
from forebay.broker.rpc.pages.requests import PageRequest
from forebay.broker.rpc.requests.reader import PUBLISH, reader_of
from forebay.client.publish.pages import EncodedPage, frame_publish_page
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import sink_service_pb2


def test_a_request_within_its_bounds_is_decoded() -> None:
    request = sink_service_pb2.GetSinkRequest(name="orders")

    read = reader_of("/forebay.v1.SinkService/GetSink", sink_service_pb2.GetSinkRequest.FromString)

    assert read(request.SerializeToString()) == request


def test_bytes_that_are_no_request_are_a_refusal_and_no_failure() -> None:
    read = reader_of("/forebay.v1.SinkService/GetSink", sink_service_pb2.GetSinkRequest.FromString)

    with pytest.raises(InvalidRequest) as caught:
        read(b"\x0a\xff")

    assert "not a message of its type" in str(caught.value)


def test_text_that_is_no_utf_8_is_a_refusal() -> None:
    read = reader_of("/forebay.v1.SinkService/GetSink", sink_service_pb2.GetSinkRequest.FromString)

    with pytest.raises(InvalidRequest):
        read(b"\x0a\x01\xff")


def test_a_call_that_is_unknown_is_bounded_in_bytes() -> None:
    read = reader_of("/forebay.v1.SinkService/AddedLater", bytes)

    assert read(b"anything") == b"anything"
    with pytest.raises(RequestTooLarge):
        read(bytes(1 << 20))


def test_the_body_of_a_large_page_is_cut_out_and_not_counted() -> None:
    read = reader_of(PUBLISH, pb.PublishRequest.FromString)

    found = read(frame_publish_page(0, 0, EncodedPage(b"\x0a\x00" * 100_000, 1), ""))

    assert isinstance(found, PageRequest)
    assert len(found.body) == 200_000


def test_a_message_of_a_publish_stream_in_another_form_is_counted() -> None:
    read = reader_of(PUBLISH, pb.PublishRequest.FromString)

    with pytest.raises(RequestTooLarge):
        read(b"\x0a\x00\x12\x00" * 100_000)
