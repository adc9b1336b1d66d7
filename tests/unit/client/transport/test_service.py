"""Pagination, repeats and repeated deletes of unary calls, against a wire with prepared answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2

from forebay.client import BrokerUnavailable, ClientSettings, NotOwner, SinkNotFound
from forebay.client.transport import channel
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import blocked, iterated
from forebay.client.transport.service import Service
from forebay.shards.rendezvous import ranked
from forebay.v1 import admin_service_pb2, sink_pb2
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


def refusing(*refusals: status_pb2.Status) -> Handler:
    """Return a handler that gives these answers, one after the other."""
    answers = iter(refusals)

    def delete(request: pb.DeleteSinkRequest, context: grpc.ServicerContext) -> pb.DeleteSinkResponse:
        abort(context, next(answers))
        return pb.DeleteSinkResponse()

    return delete


LOST = status(grpc.StatusCode.UNAVAILABLE, "")
DRAINING = status(grpc.StatusCode.UNAVAILABLE, "DRAINING")
MISSING = status(grpc.StatusCode.NOT_FOUND, "SINK_NOT_FOUND")


def elsewhere(endpoint: str = "b:1") -> status_pb2.Status:
    return status(grpc.StatusCode.FAILED_PRECONDITION, "NOT_OWNER", shard="b", endpoint=endpoint)


def test_an_attempt_that_the_broker_did_not_execute_has_deleted_nothing() -> None:
    with service(DeleteSink=refusing(DRAINING, MISSING)) as sinks, pytest.raises(SinkNotFound):
        blocked(sinks.delete("DeleteSink", "orders", DELETE, (SinkNotFound,)))


def test_a_broker_that_names_the_shard_of_a_deleted_sink_confirms_a_delete_whose_answer_was_lost() -> None:
    with service(DeleteSink=refusing(LOST, elsewhere())) as sinks:
        assert not blocked(sinks.delete("DeleteSink", "orders", DELETE, (SinkNotFound,)))
    with service(DeleteSink=refusing(elsewhere())) as sinks, pytest.raises(NotOwner):
        blocked(sinks.delete("DeleteSink", "orders", DELETE, (SinkNotFound,)))


@contextmanager
def fleet_of_two(first: Callable[[str], Handler], second: Handler) -> Iterator[Service]:
    """Two brokers, of which none has a sink. The first is the home of `orders`, and is given the other's endpoint."""
    with WireFake() as one, WireFake(DeleteSink=second) as two:
        one.handlers["DeleteSink"] = first(two.address)
        own, other = ranked("orders", "ab")
        names = {one.address: own, two.address: other}
        shards = [admin_service_pb2.Shard(name=name, endpoint=at, owner_epoch=1) for at, name in names.items()]
        for fake in (one, two):

            def listed(request: Any, context: grpc.ServicerContext, own: str = names[fake.address]) -> Any:
                return admin_service_pb2.ListShardsResponse(shard=own, shards=shards)

            fake.handlers |= {"ListShards": listed, "GetSink": lambda request, context: abort(context, MISSING)}
        channels = Channels(f"forebay://{one.address}", QUICK)
        try:
            yield Service(channels, SinkServiceStub)
        finally:
            blocked(channels.close())


def test_a_delete_that_only_another_shard_has_refused_raises_if_the_sink_never_existed() -> None:
    with (
        fleet_of_two(lambda other: refusing(elsewhere(other)), refusing(MISSING)) as sinks,
        pytest.raises(SinkNotFound),
    ):
        blocked(sinks.delete("DeleteSink", "orders", DELETE, (SinkNotFound,)))


def test_a_delete_whose_answer_was_lost_before_another_shard_is_asked_has_succeeded() -> None:
    with fleet_of_two(lambda other: refusing(LOST, elsewhere(other)), refusing(MISSING)) as sinks:
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
