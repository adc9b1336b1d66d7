"""Rates are differences of counters; spans keep the last 15 minutes and the last day."""

from __future__ import annotations

from forebay.broker.console.history import (
    SAMPLE_S,
    SAMPLES,
    SPAN_S,
    SPANS,
    Count,
    History,
    Rates,
    Settled,
    Span,
    Spans,
    day,
)
from forebay.state.flow import Flow


def test_rates_are_records_per_second_between_two_samples() -> None:
    history = History()
    history.add(Count(100.0, "a", appended=1_000, waiting=400, settled=600))
    assert history.now == Rates()

    history.add(Count(105.0, "a", appended=1_500, waiting=300, settled=1_100))

    assert history.now == Rates(into=100.0, out=100.0, cleared=120.0)
    assert list(history.quarter.waiting()) == [400, 300]


def test_a_seek_to_settled_records_is_no_negative_rate() -> None:
    history = History()
    history.add(Count(100.0, "a", appended=1_000, waiting=0, settled=0))
    history.add(Count(105.0, "a", appended=1_000, waiting=1_000, settled=0))

    assert history.now == Rates()


def test_a_sink_that_was_recreated_has_no_rate_from_the_former_one() -> None:
    history = History()
    history.add(Count(100.0, "a", appended=0, waiting=0, settled=0))
    history.add(Count(105.0, "b", appended=1_000_000, waiting=0, settled=0))

    assert history.now == Rates()


def test_settled_records_are_those_of_the_subscription_that_is_the_slowest_at_the_time() -> None:
    settled = Settled()

    counted = [
        settled.add("a", {"a": 500, "b": 900}),
        settled.add("a", {"a": 510, "b": 1_000}),
        settled.add("b", {"a": 700, "b": 1_030}),
        settled.add("c", {"a": 700, "b": 1_030, "c": 7}),
        settled.add("c", {"c": 2}),
    ]

    assert counted == [0, 10, 30, 7, 0], "the last one was recreated"
    assert settled.count == 47


def test_two_samples_at_one_time_have_no_rate() -> None:
    history = History()
    history.add(Count(100.0, "a", appended=0, waiting=0, settled=0))
    history.add(Count(100.0, "a", appended=10, waiting=0, settled=0))

    assert history.now == Rates()


def test_each_sample_of_a_quarter_of_an_hour_is_a_span() -> None:
    history = History()
    for number in range(2 * SAMPLES):
        history.add(Count(number * SAMPLE_S, "a", appended=5 * number, waiting=number, settled=0), Flow.NO_CONSUMER)

    assert len(list(history.quarter)) == SAMPLES
    assert SAMPLES * SAMPLE_S == 15 * 60
    newest = list(history.quarter)[-1]
    assert newest == Span(2 * SAMPLES - 1, 1.0, 0.0, 2 * SAMPLES - 1, Flow.NO_CONSUMER)


def test_the_oldest_spans_are_overwritten_in_order() -> None:
    last = Spans(3, 5.0)
    for number in range(5):
        last.add(5.0 * number, Rates(into=number, out=2 * number), 3 * number, Flow.FLOWING)

    assert last.into() == (2, 3, 4)
    assert last.out() == (4, 6, 8)
    assert last.waiting() == (6, 9, 12)
    assert [span.number for span in last] == [2, 3, 4]


def test_spans_that_did_not_begin_yet_are_not_there() -> None:
    last = Spans(3, 5.0)
    last.add(0.0, Rates(into=7.0), 1, Flow.PAUSED)

    assert list(last) == [Span(0, 7.0, 0.0, 1.0, Flow.PAUSED)]
    assert list(Spans(3, 5.0)) == []


def test_a_span_has_the_mean_rates_the_highest_backlog_and_the_worst_state() -> None:
    last = day()
    last.add(600.0, Rates(into=10.0, out=0.0), 5, Flow.FLOWING)
    last.add(605.0, Rates(into=30.0, out=8.0), 70, Flow.BACKING_OFF)
    last.add(610.0, Rates(into=20.0, out=4.0), 40, Flow.IDLE)
    last.add(900.0, Rates(into=1.0, out=2.0), 3, Flow.IDLE)

    assert tuple(last) == (
        Span(2, 20.0, 4.0, 70.0, Flow.BACKING_OFF),
        Span(3, 1.0, 2.0, 3.0, Flow.IDLE),
    )


def test_a_day_keeps_the_newest_spans() -> None:
    last = day()
    for number in range(SPANS + 10):
        last.add(number * SPAN_S, Rates(), number, Flow.FLOWING)

    found = tuple(last)

    assert (len(found), found[0].number, found[-1].number) == (SPANS, 10, SPANS + 9)
    assert SPANS * SPAN_S == 24 * 3600
