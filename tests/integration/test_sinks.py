"""Making, listing and changing sinks over gRPC."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import (
    Client,
    NotFound,
    Overflow,
    Record,
    SinkNotFound,
    SubscriptionNotFound,
)
from forebay.client.transport.status import from_call
from forebay.errors.reasons import Reason
from forebay.v1 import sink_pb2
from forebay.v1 import sink_service_pb2 as pb
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub
from tests.support.refusals import failure


@pytest.fixture
def stub(broker: BrokerServer) -> Iterator[SinkServiceStub]:
    """The service without our client."""
    with grpc.insecure_channel(broker.endpoint) as channel:
        yield SinkServiceStub(channel)


def test_a_sink_has_the_settings_that_were_given_and_defaults_for_the_rest(client: Client) -> None:
    made = client.sinks.create("orders", partitions=3, overflow=Overflow.DROP_OLDEST, ack_deadline_s=2.5)

    assert client.sinks.get("orders") == made
    assert (made.settings.partitions, made.settings.overflow) == (3, Overflow.DROP_OLDEST)
    assert (made.settings.ack_deadline_s, made.settings.buffer_page_size) == (2.5, 256)
    assert len(made.incarnation) == 16


def test_creating_an_existing_sink_returns_it_or_names_the_difference(client: Client) -> None:
    made = client.sinks.create("orders")

    assert client.sinks.create("orders", exist_ok=True) == made
    with failure(Reason.SINK_EXISTS):
        client.sinks.create("orders")
    with failure(Reason.SINK_EXISTS, match="partitions is 1, asked is 2"):
        client.sinks.create("orders", exist_ok=True, partitions=2)


@pytest.mark.parametrize("name", ["", "Orders", ".hidden", "a" * 124, "a b", "orders.dlq", "größe", "a" * 60_000])
def test_a_wrong_name_is_refused_with_what_is_allowed(client: Client, name: str) -> None:
    with failure(Reason.INVALID_SINK_NAME) as refused:
        client.sinks.create(name)

    assert refused.value.facts["field"] == "name"


@pytest.mark.parametrize("name", ["a.b-c_d", "0", "a" * 123])
def test_a_right_name_is_taken(client: Client, name: str) -> None:
    assert client.sinks.create(name).name == name


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"partitions": 0}, "partitions"),
        ({"partitions": 1025}, "partitions"),
        ({"buffer_page_size": 65_537}, "buffer_page_size"),
        ({"max_total_bytes": 1023}, "max_total_bytes"),
        ({"retry_backoff_factor": 0.5}, "retry_backoff_factor"),
        ({"retry_backoff_factor": float("nan")}, "retry_backoff_factor"),
        ({"ack_deadline_s": 0.01}, "ack_deadline"),
        ({"retry_backoff_min_s": 2.0, "retry_backoff_max_s": 1.0}, "retry_backoff_max"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(client: Client, settings: dict[str, Any], field: str) -> None:
    with failure(Reason.INVALID_SETTING) as refused:
        client.sinks.create("orders", **settings)

    assert refused.value.facts["field"] == field
    with pytest.raises(SinkNotFound):
        client.sinks.get("orders")


def test_every_call_that_names_an_unknown_sink_raises_sink_not_found(client: Client) -> None:
    calls: list[Callable[[str], object]] = [
        client.sinks.get,
        client.sinks.delete,
        client.sinks.pause,
        client.sinks.resume,
        client.sinks.stats,
        lambda name: client.sinks.update(name, max_disk_cache=1),
        lambda name: next(client.sinks.watch(name)),
        lambda name: client.publish(name, [Record(b"x")]),
        client.pull,
        client.peek,
        lambda name: next(client.replay(name, partition=0)),
        client.publisher,
        lambda name: client.subscriber(name).take(10),
    ]
    for call in calls:
        with pytest.raises(SinkNotFound):
            call("nothing")


@pytest.mark.parametrize("name", ["x" * 60_000, "日本語" * 6_000, "a\nb\x00c"])
def test_however_strange_the_name_the_answer_is_that_there_is_no_such_thing(client: Client, name: str) -> None:
    with pytest.raises(SinkNotFound):
        client.sinks.get(name)
    with pytest.raises(NotFound):
        client.pull(name)
    client.sinks.create("orders")
    with pytest.raises(SubscriptionNotFound):
        client.pull("orders", subscription=name)


def test_a_name_beyond_the_bound_of_a_request_is_refused_before_it_is_decoded(client: Client) -> None:
    name = "x" * 100_000

    for call in (client.sinks.get, client.sinks.create, client.pull):
        with failure(Reason.REQUEST_TOO_LARGE, match="at most 65536 are allowed"):
            call(name)


# -- listing


def test_sinks_are_listed_by_name_in_pages(stub: SinkServiceStub, client: Client) -> None:
    for number in range(7):
        client.sinks.create(f"s{number}")
    pages: list[list[str]] = []
    token = ""
    while not pages or token:
        answer = stub.ListSinks(pb.ListSinksRequest(page_size=3, page_token=token))
        pages.append([sink.name for sink in answer.sinks])
        token = answer.next_page_token

    assert pages == [["s0", "s1", "s2"], ["s3", "s4", "s5"], ["s6"]]
    assert [sink.name for sink in client.sinks.list()] == [f"s{number}" for number in range(7)]


def test_a_page_is_a_hundred_sinks_unless_more_are_asked_for(stub: SinkServiceStub, client: Client) -> None:
    for number in range(101):
        client.sinks.create(f"s{number:03}")

    assert len(stub.ListSinks(pb.ListSinksRequest()).sinks) == 100
    assert len(stub.ListSinks(pb.ListSinksRequest(page_size=4_000_000_000)).sinks) == 101


def test_a_list_continues_though_the_sink_it_stopped_at_is_gone(stub: SinkServiceStub, client: Client) -> None:
    for name in "abcd":
        client.sinks.create(name)
    first = stub.ListSinks(pb.ListSinksRequest(page_size=2))
    client.sinks.delete("b")

    rest = stub.ListSinks(pb.ListSinksRequest(page_size=2, page_token=first.next_page_token))

    assert [sink.name for sink in rest.sinks] == ["c", "d"]


def test_a_token_that_was_never_given_is_refused(stub: SinkServiceStub) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        stub.ListSinks(pb.ListSinksRequest(page_token="größe"))

    assert from_call(failure.value).reason == "INVALID_PAGE_TOKEN"


# -- changing


def test_an_update_changes_only_the_named_settings_and_survives_a_restart() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        made = client.sinks.create("orders", max_disk_cache=10, ack_deadline_s=9.0)
        changed = client.sinks.update("orders", max_disk_cache=20)
    with BrokerServer.in_memory(store.reopen()) as server, Client(server.endpoint) as client:
        found = client.sinks.get("orders")

    assert found == changed == dataclasses.replace(made, settings=dataclasses.replace(made.settings, max_disk_cache=20))


@pytest.mark.parametrize("settings", [{"partitions": 0}, {"max_total_bytes": 1}, {"ack_deadline_s": 0.0}])
def test_an_update_with_a_fixed_or_invalid_setting_is_refused_and_changes_nothing(
    client: Client, settings: dict[str, Any]
) -> None:
    made = client.sinks.create("orders")

    with failure(Reason.INVALID_SETTING):
        client.sinks.update("orders", max_disk_cache=5, **settings)

    assert client.sinks.get("orders") == made


def test_naming_the_partitions_that_it_has_changes_nothing(client: Client) -> None:
    client.sinks.create("orders", partitions=2)

    assert client.sinks.update("orders", partitions=2, max_disk_cache=1).settings.partitions == 2


@pytest.mark.parametrize("paths", [[], ["nothing"], ["x" * 50_000]])
def test_an_update_without_a_good_mask_is_refused(stub: SinkServiceStub, client: Client, paths: list[str]) -> None:
    client.sinks.create("orders")
    request = pb.UpdateSinkRequest(name="orders", settings=sink_pb2.SinkSettings(max_disk_cache=1))
    request.update_mask.paths.extend(paths)

    with pytest.raises(grpc.RpcError) as failure:
        stub.UpdateSink(request)

    assert from_call(failure.value).reason == "INVALID_SETTING"
