from __future__ import annotations

from forebay.broker.runtime.metrics import PARTITION, SINK
from forebay.broker.telemetry.series import OVERFLOW, Folded, Seen, Series

ORDERS = {"messaging.system": "forebay", SINK: "orders", PARTITION: "0"}


def test_the_attributes_of_one_place_are_made_once() -> None:
    series = Series(SINK, PARTITION)

    assert series.of(("orders", "0")) == ORDERS
    assert series.of(("orders", "0")) is series.of(("orders", "0"))


def test_beyond_the_bound_all_share_one_series_and_those_that_have_one_keep_it() -> None:
    series = Series(SINK, series_max=2)
    kept = [series.of(("a",)), series.of(("b",))]

    assert series.of(("c",)) is series.of(("d",)) is OVERFLOW
    assert [series.of(("a",)), series.of(("b",))] == kept


def test_a_gauge_folds_what_is_beyond_the_bound_into_one_value() -> None:
    sums, highest = Folded(sum, Seen(), series_max=3), Folded(max, Seen(), series_max=3)
    for number, name in enumerate("abcd"):
        assert sums.is_full == (number == 3)
        for each in (sums, highest):
            each.add({SINK: name}, float(number))
    for each in (sums, highest):
        each.add_rest(4.0)

    shown = sums.observations()

    assert [(found.value, dict(found.attributes or {}).get(SINK)) for found in shown] == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
        (3 + 4, None),
    ]
    assert shown[-1].attributes == OVERFLOW
    assert highest.observations()[-1].value == 4


def test_a_gauge_leaves_out_what_is_not_to_be_folded() -> None:
    folded = Folded(sum, Seen(), series_max=1)
    for foldable in (False, False, True):
        folded.add({SINK: "a"}, 1.0, foldable=foldable)

    assert [found.value for found in folded.observations()] == [1.0, 1.0]


def test_a_gauge_that_has_had_all_its_series_is_full_after_as_many_points() -> None:
    folded = Folded(sum, Seen(seen_max=0), series_max=2)

    for number in range(2):
        assert not folded.is_full
        folded.add({SINK: str(number)}, 1.0)

    assert folded.is_full
    assert [found.value for found in folded.observations()] == [2.0]


def test_a_gauge_within_the_bound_has_no_overflow() -> None:
    folded = Folded(sum, Seen(), series_max=1)
    assert folded.observations() == []

    folded.add({SINK: "a"}, 1.0)

    assert len(folded.observations()) == 1


def test_a_gauge_folds_the_series_that_come_when_it_has_had_its_number() -> None:
    seen = Seen(seen_max=2)
    shown: list[list[tuple[float, object]]] = []
    for names in ("ab", "bcd", "ab"):
        folded = Folded(sum, seen)
        for number, name in enumerate(names, 1):
            folded.add({SINK: name}, number)
        shown.append([(one.value, dict(one.attributes or {}).get(SINK)) for one in folded.observations()])

    assert shown == [[(1, "a"), (2, "b")], [(1, "b"), (2 + 3, None)], [(1, "a"), (2, "b")]]
