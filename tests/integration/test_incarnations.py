"""A sink that was deleted and recreated is another one: the broker refuses what is about the former one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from forebay.broker.embedded import BrokerServer
from forebay.client import (
    Client,
    EpochCommit,
    ForebayError,
    Record,
    ResendRanges,
    SettleOutcome,
    SinkReplaced,
    Stage,
    StagedToken,
    SubscriptionReplaced,
    SubscriptionStats,
)
from forebay.client.transport.status import from_call
from forebay.errors.reasons import Reason
from forebay.v1 import epoch_service_pb2, schema_service_pb2
from forebay.v1.schema_service_pb2_grpc import SchemaServiceStub
from tests.support.proxies.tcp import TcpProxy
from tests.support.refusals import failure
from tests.support.rules.services import METHODS

FORMER: Final = "0123456789abcdef"
MORE: Final[dict[str, dict[str, Any]]] = {"UpdateSink": {"update_mask": {"paths": ["partitions"]}}}
"""Fields that a request requires in addition to the sink."""
OPENS: Final = {"Publish": {"writer_id": "w"}, "Deliver": {"consumer_id": "c"}}
"""Fields of the first message of a stream in addition to the sink."""


def requests() -> Iterator[tuple[MethodDescriptor, Any]]:
    """A request of each rpc that can name an incarnation: of the sink `orders`, and of a former one."""
    for method in METHODS.values():
        kind = GetMessageClass(method.input_type)
        fields = method.input_type.fields_by_name
        if "incarnation" in fields:
            named = {"sink" if "sink" in fields else "name": "orders", "incarnation": FORMER}
            yield method, kind(**named, **MORE.get(method.name, {}))
    commit = epoch_service_pb2.EpochCommit(sink="orders", producer="p", run="r", ticket=1, incarnation=FORMER)
    methods = {method.name: method for method in METHODS.values()}
    yield methods["CommitEpoch"], epoch_service_pb2.CommitEpochRequest(commits=[commit])
    for name, more in OPENS.items():
        kind = GetMessageClass(methods[name].input_type)
        yield methods[name], kind(open={"sink": "orders", "incarnation": FORMER, **more})


REQUESTS: Final = {method.name: (method, request) for method, request in requests()}


def called(channel: grpc.Channel, rpc: str, other: Any = None) -> ForebayError:
    """Make the call, or the same with another request, and return what ended it."""
    method, request = REQUESTS[rpc]
    request = other or request
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


def test_refused_calls_have_no_effect(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"one")])
    before = client.sinks.stats("orders")

    with grpc.insecure_channel(broker.endpoint) as channel:
        for rpc in sorted(set(REQUESTS) - {"RedriveDeadLetters", "PurgeDeadLetters"}):
            called(channel, rpc)

    after = client.sinks.stats("orders")
    assert (after.partitions, after.incarnation) == (before.partitions, before.incarnation)
    assert [account(one) for one in after.subscriptions] == [account(one) for one in before.subscriptions]


OF_SUBSCRIPTIONS: Final = sorted(
    name
    for name, (method, _) in REQUESTS.items()
    if "subscription_incarnation" in method.input_type.fields_by_name or name == "Deliver"
)


@pytest.mark.parametrize("rpc", OF_SUBSCRIPTIONS)
def test_a_request_about_a_former_subscription_is_refused_and_names_both(
    broker: BrokerServer, client: Client, rpc: str
) -> None:
    made = client.sinks.create("orders")
    about_sink = REQUESTS[rpc][1]
    request = type(about_sink)()
    opening = request.open if rpc == "Deliver" else request
    opening.sink, opening.subscription_incarnation = "orders", FORMER
    if rpc == "Deliver":
        opening.consumer_id = "c"
    if rpc == "DeleteSubscription":
        client.subscriptions.create("orders", "audit")
    if "name" in opening.DESCRIPTOR.fields_by_name:
        opening.name = "audit" if rpc == "DeleteSubscription" else "default"
    if rpc == "SeekSubscription":
        opening.to.earliest = True
    if "holder" in opening.DESCRIPTOR.fields_by_name:
        opening.holder = "job"

    with grpc.insecure_channel(broker.endpoint) as channel:
        refused = called(channel, rpc, request)

    assert isinstance(refused, SubscriptionReplaced)
    named = {one.name: one.incarnation for one in client.subscriptions.list("orders")}
    current = named["audit" if rpc == "DeleteSubscription" else "default"]
    assert (refused.named, refused.current) == (FORMER, current)
    assert named["default"] == made.incarnation


def account(subscription: SubscriptionStats) -> tuple[str, list[object]]:
    """Statistics without those that change by themselves."""
    places: list[object] = [
        (one.start_offset, one.watermark, one.acked, one.skipped, one.pending) for one in subscription.partitions
    ]
    return subscription.name, places


# -- what our own client remembers


def made_anew(client: Client, proxy: TcpProxy) -> tuple[str, str]:
    """Delete and make the sink while a client behind ``proxy`` hears nothing; return both incarnations."""
    proxy.lose_answers()
    former = client.sinks.get("orders").incarnation
    client.sinks.delete("orders", force=True)
    made = client.sinks.create("orders", partitions=4).incarnation
    proxy.cut()
    return former, made


def test_a_publisher_ends_when_its_sink_was_recreated_while_its_connection_was_broken(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create("orders")
    with TcpProxy(broker.endpoint) as proxy, Client(proxy.endpoint) as far:
        publisher = far.publisher("orders", linger_ms=0)
        publisher.send(b"before").result(10)
        both = made_anew(client, proxy)

        with pytest.raises(SinkReplaced) as ended:
            publisher.send(b"after").result(10)
        publisher.abandon()

    assert (ended.value.named, ended.value.current) == both
    assert publisher.incarnation == both[0]
    assert client.sinks.stats("orders").records == 0


def test_a_subscriber_ends_when_its_sink_was_recreated_while_its_connection_was_broken(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"before")])
    with TcpProxy(broker.endpoint) as proxy, Client(proxy.endpoint) as far, far.subscriber("orders") as subscriber:
        assert subscriber.take(10) is not None
        both = made_anew(client, proxy)

        with pytest.raises(SinkReplaced) as ended:
            subscriber.take(10)

    assert (ended.value.named, ended.value.current) == both


def test_a_subscriber_ends_when_its_subscription_was_recreated_while_its_connection_was_broken(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create("orders")
    former = client.subscriptions.create("orders", "audit")
    client.publish("orders", [Record(b"before")])
    with (
        TcpProxy(broker.endpoint) as proxy,
        Client(proxy.endpoint) as far,
        far.subscriber("orders", subscription="audit") as subscriber,
    ):
        assert subscriber.take(10) is not None
        proxy.lose_answers()
        client.subscriptions.delete("orders", "audit")
        current = client.subscriptions.create("orders", "audit")
        proxy.cut()

        with pytest.raises(SubscriptionReplaced) as ended:
            subscriber.take(10)

    assert (ended.value.named, ended.value.current) == (former.incarnation, current.incarnation)


def test_a_set_that_a_former_subscription_leased_settles_nothing_in_its_successor(client: Client) -> None:
    client.sinks.create("orders", ordering="RELAXED")
    client.publish("orders", [Record(b"one"), Record(b"two")])
    held = []
    for _ in range(2):
        client.subscriptions.create("orders", "audit")
        client.nack("orders", client.pull("orders", subscription="audit"), subscription="audit", delay_s=0.0)
        held.append(client.resends.lease("orders", "audit", holder="job", duration_s=60).partitions)
        if len(held) == 1:
            client.subscriptions.delete("orders", "audit")

    settled = client.resends.settle("orders", "audit", holder="job", ranges=held[0])
    again = client.resends.lease_again("orders", "audit", holder="other", ranges=held[0], duration_s=60)

    assert {one.outcome for one in settled} == {SettleOutcome.STALE}
    assert again.records == 0
    assert {one.outcome for one in client.resends.settle("orders", "audit", holder="job", ranges=held[1])} == {
        SettleOutcome.OK
    }


def test_offsets_of_a_former_subscription_settle_and_move_nothing_in_its_successor(client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"one")])
    former = client.subscriptions.create("orders", "audit")
    client.subscriptions.delete("orders", "audit")
    current = client.subscriptions.create("orders", "audit")
    named = former.incarnation

    with pytest.raises(SubscriptionReplaced):
        client.subscriptions.settle("orders", "audit", offsets={0: 1}, subscription_incarnation=named)
    with pytest.raises(SubscriptionReplaced):
        client.subscriptions.seek("orders", "audit", to="latest", subscription_incarnation=named)

    [account] = client.sinks.stats("orders").subscriptions[0].partitions
    assert (account.acked, account.pending, account.lifetime.seeks) == (0, 1, 0)
    assert former.incarnation != current.incarnation
    [done] = client.subscriptions.settle(
        "orders", "audit", offsets={0: 1}, subscription_incarnation=current.incarnation
    )
    assert done.acked == 1


def test_a_replay_ends_when_its_sink_was_recreated_while_its_connection_was_broken(
    broker: BrokerServer, client: Client
) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"before")])
    with TcpProxy(broker.endpoint) as proxy, Client(proxy.endpoint) as far:
        replay = far.replay_pages("orders", partition=0, follow=True)
        next(replay)
        both = made_anew(client, proxy)

        with pytest.raises(SinkReplaced) as ended:
            next(replay)

    assert (ended.value.named, ended.value.current) == both


def test_answers_to_records_that_were_pulled_settle_nothing_in_a_recreated_sink(client: Client) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"former")])
    pulled = client.pull("orders")
    client.sinks.delete("orders", force=True)
    client.sinks.create("orders")
    client.publish("orders", [Record(b"new")])
    client.pull("orders")

    with pytest.raises(SinkReplaced):
        client.ack("orders", pulled)
    with pytest.raises(SinkReplaced):
        client.nack("orders", pulled)

    [account] = client.sinks.stats("orders").subscriptions[0].partitions
    assert (account.acked, account.in_flight) == (0, 1)


def test_records_staged_in_a_former_sink_are_not_committed_in_its_successor(client: Client) -> None:
    client.sinks.create("orders")
    stage = Stage("batch", 0, "run", client.epochs.take_ticket("orders"))
    with client.publisher("orders", stage=stage) as publisher:
        publisher.send(b"staged")
    staged = publisher.staged()
    nothing = StagedToken("other", (), staged.incarnation)
    client.sinks.delete("orders", force=True)
    client.sinks.create("orders")

    with pytest.raises(SinkReplaced):
        client.epochs.commit([EpochCommit.of("orders", stage, [staged])])
    with pytest.raises(SinkReplaced):
        client.epochs.commit([EpochCommit.of("orders", stage, [nothing])])
    with pytest.raises(SinkReplaced):
        client.publisher("orders", stage=replace(stage, incarnation=staged.incarnation))
    with pytest.raises(SinkReplaced):
        client.epochs.take_ticket("orders", incarnation=staged.incarnation)

    assert list(client.epochs.list("orders")) == []


def test_tokens_that_were_staged_in_two_sinks_of_one_name_are_no_commit() -> None:
    stage = Stage("batch", 0, "run", 1)

    with failure(Reason.STAGED_INCOMPLETE, match="deleted and recreated"):
        EpochCommit.of("orders", stage, [StagedToken("a", (), "first"), StagedToken("b", (), "second")])


def test_a_set_that_was_leased_from_a_former_sink_settles_nothing_in_its_successor(client: Client) -> None:
    client.sinks.create("orders", ordering="RELAXED")
    former = ResendRanges(0, 0, ((0, 0),), (), FORMER)

    with pytest.raises(SinkReplaced):
        client.resends.settle("orders", holder="job", ranges=[former])
    with pytest.raises(SinkReplaced):
        client.resends.lease_again("orders", holder="job", ranges=[former])
    with failure(Reason.INVALID_RANGE):
        client.resends.settle("orders", holder="job", ranges=[former, ResendRanges(1, 0, ((0, 0),), (), "other")])


def test_a_list_that_continues_in_a_recreated_sink_is_refused(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders")
    for version in range(2):
        client.schemas.register("orders", b"%d" % version, previous=version)
    with grpc.insecure_channel(broker.endpoint) as channel:
        stub = SchemaServiceStub(channel)
        first = stub.ListSchemas(schema_service_pb2.ListSchemasRequest(sink="orders", page_size=1))
        client.sinks.delete("orders")
        client.sinks.create("orders")

        with pytest.raises(grpc.RpcError) as refused:
            stub.ListSchemas(schema_service_pb2.ListSchemasRequest(sink="orders", page_token=first.next_page_token))

    assert isinstance(from_call(refused.value), SinkReplaced)
