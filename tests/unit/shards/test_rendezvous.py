"""Order of the shards of a sink."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from forebay.shards.rendezvous import ranked

THREE = ("a", "b", "c")
SINKS = [f"sink-{number}" for number in range(600)]


@given(st.permutations(THREE), st.sampled_from(SINKS))
def test_the_order_of_the_names_does_not_matter(names: list[str], sink: str) -> None:
    assert ranked(sink, names) == ranked(sink, THREE)


def test_every_order_is_as_frequent_as_the_others() -> None:
    counts = Counter(tuple(ranked(sink, THREE)) for sink in SINKS)

    assert len(counts) == 6
    assert all(60 < count < 140 for count in counts.values())


def test_a_new_shard_leaves_the_order_of_the_others_as_it_is() -> None:
    for sink in SINKS:
        assert [name for name in ranked(sink, (*THREE, "d")) if name != "d"] == ranked(sink, THREE)


def test_a_dead_letter_sink_has_the_order_of_its_origin() -> None:
    assert all(ranked(f"{sink}.dlq", THREE) == ranked(sink, THREE) for sink in SINKS)
