"""Latencies are counted in buckets, and forgotten after two spans."""

from __future__ import annotations

from forebay.broker.core.resources.latency import BOUNDS_S, SPAN_S, RecentLatency


def test_without_an_event_there_are_no_counts() -> None:
    assert RecentLatency().counts(5.0) == ()


def test_a_latency_at_a_bound_is_in_the_bucket_below_it() -> None:
    recent = RecentLatency()

    for latency_s in (0.0005, 0.01, 0.010_001, 61.0):
        recent.add(latency_s, 1.0)

    assert recent.counts(1.0) == (1, 1, 1, 0, 0, 0, 1)
    assert len(recent.counts(1.0)) == len(BOUNDS_S) + 1


def test_events_are_counted_for_one_span_more_than_theirs() -> None:
    recent = RecentLatency()
    recent.add(0.5, 10.0)

    recent.add(0.5, 10.0 + SPAN_S)
    assert sum(recent.counts(10.0 + SPAN_S)) == 2
    assert sum(recent.counts(10.0 + 2 * SPAN_S)) == 1
    assert recent.counts(10.0 + 4 * SPAN_S) == ()


def test_a_long_pause_leaves_nothing_of_the_span_before_it() -> None:
    recent = RecentLatency()
    recent.add(0.5, 10.0)

    recent.add(20.0, 10.0 + 5 * SPAN_S)

    assert recent.counts(10.0 + 5 * SPAN_S) == (0, 0, 0, 0, 0, 1, 0)
