from __future__ import annotations

from holdfast.broker.series import OVERFLOW, PARTITION, SINK, Series, folded

ORDERS = {"messaging.system": "holdfast", SINK: "orders", PARTITION: "0"}


def test_the_attributes_of_one_place_are_made_once() -> None:
    series = Series(SINK, PARTITION)

    assert series.of("orders", "0") == ORDERS
    assert series.of("orders", "0") is series.of("orders", "0")


def test_beyond_the_bound_all_share_one_series_and_those_that_have_one_keep_it() -> None:
    series = Series(SINK, series_max=2)
    kept = [series.of("a"), series.of("b")]

    assert series.of("c") is series.of("d") is OVERFLOW
    assert [series.of("a"), series.of("b")] == kept


def test_a_gauge_folds_what_is_beyond_the_bound_into_one_value() -> None:
    points = [({SINK: name}, float(number)) for number, name in enumerate("abcde")]

    shown = folded(points, sum, series_max=3)

    assert [(found.value, dict(found.attributes or {}).get(SINK)) for found in shown] == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
        (3 + 4, None),
    ]
    assert shown[-1].attributes == OVERFLOW
    assert folded(points, max, series_max=3)[-1].value == 4


def test_a_gauge_within_the_bound_has_no_overflow() -> None:
    assert len(folded([({SINK: "a"}, 1.0)], sum, series_max=1)) == 1
    assert folded([], sum) == []
