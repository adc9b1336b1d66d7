"""Mapping of sinks to brokers."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from forebay.client.transport.rendezvous import endpoint_of

THREE = ("a:1", "b:1", "c:1")
SINKS = [f"sink-{number}" for number in range(600)]


@given(st.permutations(THREE), st.sampled_from(SINKS))
def test_the_order_of_the_endpoints_does_not_matter(endpoints: list[str], sink: str) -> None:
    assert endpoint_of(sink, endpoints) == endpoint_of(sink, THREE)


def test_sinks_are_spread_evenly() -> None:
    counts = Counter(endpoint_of(sink, THREE) for sink in SINKS)

    assert all(150 < counts[endpoint] < 250 for endpoint in THREE)


def test_a_new_broker_takes_its_share_and_nothing_else_moves() -> None:
    moved = {sink for sink in SINKS if endpoint_of(sink, (*THREE, "d:1")) != endpoint_of(sink, THREE)}

    assert {endpoint_of(sink, (*THREE, "d:1")) for sink in moved} == {"d:1"}
    assert 90 < len(moved) < 210


def test_a_dead_letter_sink_lives_where_its_origin_does() -> None:
    assert all(endpoint_of(f"{sink}.dlq", THREE) == endpoint_of(sink, THREE) for sink in SINKS)


def test_one_broker_holds_everything() -> None:
    assert endpoint_of("any", ("a:1",)) == "a:1"
