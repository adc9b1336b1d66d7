"""A sink that was deleted and made anew is another one: the broker refuses what is about the former one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from holdfast.broker.server import BrokerServer
from holdfast.client import Client, HoldfastError, Record, SinkReplaced, SubscriptionStats
from holdfast.client.status import from_call
from holdfast.v1 import (
    buffer_service_pb2,
    dead_letter_service_pb2,
    epoch_service_pb2,
    resend_service_pb2,
    schema_service_pb2,
    sink_service_pb2,
)

FORMER: Final = "0123456789abcdef"
SERVICES: Final = (
    buffer_service_pb2.DESCRIPTOR.services_by_name["BufferService"],
    dead_letter_service_pb2.DESCRIPTOR.services_by_name["DeadLetterService"],
    epoch_service_pb2.DESCRIPTOR.services_by_name["EpochService"],
    resend_service_pb2.DESCRIPTOR.services_by_name["ResendService"],
    schema_service_pb2.DESCRIPTOR.services_by_name["SchemaService"],
    sink_service_pb2.DESCRIPTOR.services_by_name["SinkService"],
)
MORE: Final[dict[str, dict[str, Any]]] = {"UpdateSink": {"update_mask": {"paths": ["partitions"]}}}
"""What a request has beside the sink, where it is refused for something else without it."""
OPENS: Final = {"Publish": {"writer_id": "w"}, "Deliver": {"consumer_id": "c"}}
"""What the first message of a stream has beside the sink."""


def requests() -> Iterator[tuple[MethodDescriptor, Any]]:
    """A request of each rpc that can name an incarnation: of the sink `orders`, and of a former one."""
    for service in SERVICES:
        for method in service.methods:
            kind = GetMessageClass(method.input_type)
            fields = method.input_type.fields_by_name
            if "incarnation" in fields:
                named = {"sink" if "sink" in fields else "name": "orders", "incarnation": FORMER}
                yield method, kind(**named, **MORE.get(method.name, {}))
    commit = epoch_service_pb2.EpochCommit(sink="orders", producer="p", run="r", ticket=1, incarnation=FORMER)
    methods = {method.name: method for service in SERVICES for method in service.methods}
    yield methods["CommitEpoch"], epoch_service_pb2.CommitEpochRequest(commits=[commit])
    for name, more in OPENS.items():
        kind = GetMessageClass(methods[name].input_type)
        yield methods[name], kind(open={"sink": "orders", "incarnation": FORMER, **more})


REQUESTS: Final = {method.name: (method, request) for method, request in requests()}


def called(channel: grpc.Channel, rpc: str) -> HoldfastError:
    """Make the call and return what ended it."""
    method, request = REQUESTS[rpc]
    path = f"/{method.containing_service.full_name}/{method.name}"
    answer = GetMessageClass(method.output_type)
    many_in, many_out = method.client_streaming, method.server_streaming
    kind = f"{'stream' if many_in else 'unary'}_{'stream' if many_out else 'unary'}"
    call = getattr(channel, kind)(path, type(request).SerializeToString, answer.FromString)
    try:
        answers = call(iter([request]) if many_in else request, timeout=10)
        if many_out:
            list(answers)
    except grpc.RpcError as failure:
        return from_call(failure)
    pytest.fail(f"{rpc} was not refused")


@pytest.mark.parametrize("rpc", sorted(REQUESTS))
def test_a_request_about_a_former_sink_is_refused_and_names_both(
    broker: BrokerServer, client: Client, rpc: str
) -> None:
    made = client.sinks.create("orders")
    client.publish("orders", [Record(b"one")])
    if "DeadLetters" in rpc:
        delivery = client.subscriber("orders").take(10)
        assert delivery is not None
        delivery.dead_letter("never", wait=True)
        made = client.sinks.get("orders.dlq")

    with grpc.insecure_channel(broker.endpoint) as channel:
        refused = called(channel, rpc)

    assert isinstance(refused, SinkReplaced)
    assert (refused.named, refused.current) == (FORMER, made.incarnation)
    assert FORMER in str(refused)
    assert made.incarnation in str(refused)


def test_nothing_was_done_by_what_was_refused(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"one")])
    before = client.sinks.stats("orders")

    with grpc.insecure_channel(broker.endpoint) as channel:
        for rpc in sorted(set(REQUESTS) - {"RedriveDeadLetters", "PurgeDeadLetters"}):
            called(channel, rpc)

    after = client.sinks.stats("orders")
    assert (after.partitions, after.incarnation) == (before.partitions, before.incarnation)
    assert [account(one) for one in after.subscriptions] == [account(one) for one in before.subscriptions]


def account(subscription: SubscriptionStats) -> tuple[str, list[object]]:
    """What does not change by itself."""
    places: list[object] = [
        (one.start_offset, one.watermark, one.acked, one.skipped, one.pending) for one in subscription.partitions
    ]
    return subscription.name, places
