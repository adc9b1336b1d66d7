"""Shards as a client asks for them, against owners with prepared answers."""

from __future__ import annotations

import pytest

from forebay.client import BrokerUnavailable, Client, RepeatedSink, Shard
from forebay.shards.rendezvous import ranked
from tests.support.calls.fleet_fake import fleet_of
from tests.support.calls.wire_fake import QUICK


@pytest.mark.parametrize("scheme", ["forebay://", ""])
def test_sinks_of_one_name_in_several_shards_are_named_with_the_one_that_clients_use(scheme: str) -> None:
    sinks = {"a": ["bills", "orders", "orders.dlq"], "b": ["orders", "orders.dlq", "trips"], "c": ["orders"]}
    with fleet_of(sinks) as owners, Client(f"{scheme}{owners['a'].address}", settings=QUICK) as client:
        [found] = client.shards.repeated()

    assert found == RepeatedSink(
        "orders", tuple(Shard(shard, owners[shard].address, 1) for shard in ranked("orders", "abc"))
    )
    last = ranked("orders", "abc")[-1]
    assert str(found).startswith("sink 'orders' is in shards ")
    assert f"forebay sink delete orders --endpoint {owners[last].address}" in found.advice


def test_shards_with_different_names_have_no_sink_twice() -> None:
    with fleet_of({"a": ["bills"], "b": ["orders"]}) as owners, owners["a"].client() as client:
        assert client.shards.repeated() == []


def test_a_dead_letter_sink_without_its_origin_is_not_taken_for_the_origin() -> None:
    with fleet_of({"a": ["orders.dlq"], "b": ["orders"]}) as owners, owners["a"].client() as client:
        assert client.shards.repeated() == []


@pytest.mark.parametrize("origins", [["a"], ["b"], []])
def test_dead_letter_sinks_of_one_name_are_reported_under_it_and_that_beside_the_origin_is_kept(
    origins: list[str],
) -> None:
    sinks = {shard: ["orders.dlq", *(["orders"] if shard in origins else [])] for shard in "ab"}
    with fleet_of(sinks) as owners, owners["a"].client() as client:
        [found] = client.shards.repeated()

    used, other = sorted(ranked("orders", "ab"), key=lambda shard: shard not in origins)
    assert (found.name, [one.name for one in found.shards]) == ("orders.dlq", [used, other])
    assert f"forebay sink delete orders.dlq --endpoint {found.shards[1].endpoint}" in found.advice


def test_an_owner_that_does_not_answer_is_not_taken_for_one_without_sinks() -> None:
    with fleet_of({"a": ["orders"], "b": ["orders"]}) as owners, owners["a"].client() as client:
        owners["b"].stop()

        with pytest.raises(BrokerUnavailable):
            client.shards.repeated()
