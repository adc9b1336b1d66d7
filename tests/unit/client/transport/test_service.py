"""Pagination, repeats and repeated deletes of unary calls, against a wire with prepared answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest

from forebay.client import BrokerUnavailable, ClientSettings, SinkNotFound
from forebay.client.transport import channel
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import blocked, iterated
from forebay.client.transport.service import Service
from forebay.v1 import sink_pb2
from forebay.v1 import sink_service_pb2 as pb
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub
from tests.support.calls.wire_fake import QUICK, Handler, Silent, WireFake, abort, status

DELETE = pb.DeleteSinkRequest(name="orders")


def list_sinks(request: pb.ListSinksRequest, context: grpc.ServicerContext) -> pb.ListSinksResponse:
    names = {"": "a", "1": "b", "2": "c"}
    following = {"": "1", "1": "2", "2": ""}
    return pb.ListSinksResponse(
        sinks=[sink_pb2.Sink(name=names[request.page_token])], next_page_token=following[request.page_token]
    )


@contextmanager
def service(settings: ClientSettings = QUICK, **handlers: Handler) -> Iterator[Service]:
    with WireFake(**handlers) as fake:
        channels = Channels([fake.address], settings)
        try:
            yield Service(channels, SinkServiceStub)
        finally:
            blocked(channels.close())


def test_each_page_is_requested_with_the_token_of_the_page_before() -> None:
    with service(ListSinks=list_sinks) as sinks:
        pages = list(iterated(sinks.pages("ListSinks", "", pb.ListSinksRequest())))

    assert [page.sinks[0].name for page in pages] == ["a", "b", "c"]


def test_no_page_is_requested_before_it_is_needed() -> None:
    requested: list[str] = []

    def list_and_record(request: pb.ListSinksRequest, context: grpc.ServicerContext) -> pb.ListSinksResponse:
        requested.append(request.page_token)
        return list_sinks(request, context)

    with service(ListSinks=list_and_record) as sinks:
        next(iterated(sinks.pages("ListSinks", "", pb.ListSinksRequest())))

    assert requested == [""]


def delete_after(failures: int) -> Any:
    attempts = 0

    def delete(request: pb.DeleteSinkRequest, context: grpc.ServicerContext) -> pb.DeleteSinkResponse:
        nonlocal attempts
        attempts += 1
        if attempts <= failures:
            abort(context, status(grpc.StatusCode.UNAVAILABLE, ""))
        abort(context, status(grpc.StatusCode.NOT_FOUND, "SINK_NOT_FOUND"))
        return pb.DeleteSinkResponse()

    return delete


def test_a_delete_whose_first_answer_was_lost_has_succeeded_if_the_object_is_gone() -> None:
    with service(DeleteSink=delete_after(1)) as sinks:
        assert not blocked(sinks.delete("DeleteSink", "orders", DELETE, (SinkNotFound,)))


def test_a_delete_of_an_object_that_never_existed_raises() -> None:
    with service(DeleteSink=delete_after(0)) as sinks, pytest.raises(SinkNotFound):
        blocked(sinks.delete("DeleteSink", "orders", DELETE, (SinkNotFound,)))


def test_a_stream_that_is_not_answered_ends_with_an_error_that_may_be_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel, "OPENING_S", 0.2)
    silent = Silent(pb.WatchSinkStatsResponse(), streams=1)
    with service(replace(QUICK, call_timeout_s=0.2), WatchSinkStats=silent) as sinks:
        request = pb.WatchSinkStatsRequest(name="orders")
        with pytest.raises(BrokerUnavailable, match=r"did not answer the start of a stream within 0\.2 s") as caught:
            next(iterated(sinks.responses("WatchSinkStats", "orders", request)))

    assert caught.value.retryable


def test_a_read_that_the_broker_cancels_is_repeated_since_this_client_did_not_cancel_it() -> None:
    attempts = 0

    def stats(request: pb.GetSinkStatsRequest, context: grpc.ServicerContext) -> pb.GetSinkStatsResponse:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            context.abort(grpc.StatusCode.CANCELLED, "")
        return pb.GetSinkStatsResponse()

    with service(GetSinkStats=stats) as sinks:
        blocked(sinks.call("GetSinkStats", "orders", pb.GetSinkStatsRequest(name="orders")))

    assert attempts == 2
