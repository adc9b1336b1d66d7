from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.delivery.assignment import assign

CONSUMERS = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1)


def test_without_consumers_no_partition_has_an_owner() -> None:
    assert assign(4, [], {0: "gone"}) == {}


def test_the_first_consumer_owns_everything() -> None:
    assert assign(3, ["a"], {}) == {0: "a", 1: "a", 2: "a"}


def test_a_second_consumer_takes_half_and_nothing_else_moves() -> None:
    plan = assign(4, ["a", "b"], dict.fromkeys(range(4), "a"))

    assert plan == {0: "a", 1: "a", 2: "b", 3: "b"}


def test_the_odd_partition_stays_with_who_came_first() -> None:
    assert assign(3, ["a", "b"], {0: "a", 1: "a", 2: "a"}) == {0: "a", 1: "a", 2: "b"}


def test_partitions_of_a_consumer_that_leaves_are_assigned_to_the_others() -> None:
    assert assign(2, ["b"], {0: "a", 1: "b"}) == {0: "b", 1: "b"}


def test_more_consumers_than_partitions_leave_some_with_nothing() -> None:
    assert set(assign(1, ["a", "b", "c"], {}).values()) == {"a"}


@given(partitions=st.integers(1, 40), consumers=CONSUMERS, data=st.data())
def test_shares_differ_by_one_at_most_and_moves_are_as_few_as_can_be(
    partitions: int, consumers: list[str], data: st.DataObject
) -> None:
    owners = data.draw(st.dictionaries(st.integers(0, partitions - 1), st.sampled_from("abcdefgh")))

    plan = assign(partitions, consumers, owners)

    assert sorted(plan) == list(range(partitions))
    shares = {consumer: sum(owner == consumer for owner in plan.values()) for consumer in consumers}
    assert sum(shares.values()) == partitions
    assert max(shares.values()) - min(shares.values()) <= 1
    for consumer in consumers:
        had = {partition for partition, owner in owners.items() if owner == consumer}
        kept = {partition for partition in had if plan[partition] == consumer}
        assert len(kept) == min(len(had), shares[consumer])
