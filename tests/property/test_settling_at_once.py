"""Ranges that are settled at once leave a lane as they do when they are settled one after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.delivery.in_flight import InFlight
from forebay.broker.core.delivery.lane import Answer, Lane
from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range, RangeSet
from forebay.broker.core.settings import Ordering, SinkSettings

PAGE = 8
END = 5 * PAGE
offsets = st.integers(0, END)
some_ranges = st.lists(
    st.tuples(offsets, st.integers(1, 6)).map(lambda pair: Range(pair[0], pair[0] + pair[1])), max_size=12
)
apart = st.sets(st.integers(0, END - 1), max_size=END).map(
    lambda chosen: [Range(offset, offset + 1) for offset in sorted(chosen)]
)


def flying(ordering: Ordering, settled: list[Range], failed: list[Range], parked: list[Range]) -> Lane:
    """A lane with five pages, of which some records are settled, some failed and some are on their way elsewhere."""
    lane = Lane(Cursor(), SinkSettings(ordering=ordering))
    lane.assign("a", 1, InFlight())
    for base in range(0, END, PAGE):
        lane.sender.send(base, base + PAGE, 10 * PAGE, float(base))
    for part in settled:
        lane.settle(answer(lane), part, Settlement.ACKED, 50.0, END)
    lane.begin_transfer([part for each in parked for part in lane.view.unsettled(each)], 55.0, END, answered=True)
    if failed:
        lane.nack(answer(lane), failed, 60.0, delay_s=0.0, random=0.5, reason="")
    return lane


def answer(lane: Lane) -> Answer:
    return Answer(1, lane.revision)


def seen(lane: Lane) -> tuple[object, ...]:
    """All observable state of a lane."""
    flights = [(each.base, each.first, each.end, each.unsettled, each.size, each.since) for each in lane.flights]
    parked = [(each.first, each.end, each.not_before) for each in lane.retry.queue]
    machine = (lane.resend.state, lane.resend.not_before, lane.resend.backlog_end, lane.retry.live_stopped)
    view = (lane.view.watermark, lane.view.beyond, lane.view.attempts)  # it settles nothing: its sums are unused
    return lane.cursor, view, flights, parked, machine, lane.deadline(), lane.sender.position, lane.pop_settled()


@given(
    st.sampled_from(Ordering), some_ranges, some_ranges, apart, apart | some_ranges, st.sampled_from(["ack", "drop"])
)
def test_settled_at_once_or_one_by_one_a_lane_ends_the_same(
    ordering: Ordering, settled: list[Range], failed: list[Range], parked: list[Range], asked: list[Range], how: str
) -> None:
    moving = parked[: len(parked) // 2]
    together, one_by_one = (flying(ordering, settled, failed, moving) for _ in range(2))
    kind = Settlement.ACKED if how == "ack" else Settlement.DROPPED

    results = together.settle_all(answer(together), asked, kind, 70.0, END)

    now = answer(one_by_one)
    assert results == [r for each in asked for r in one_by_one.settle(now, each, kind, 70.0, END)]
    assert seen(together) == seen(one_by_one)
    assert together.cursor.balances(END)


@given(st.sampled_from(Ordering), some_ranges, some_ranges, apart)
def test_dropped_at_once_or_one_by_one_a_lane_ends_the_same(
    ordering: Ordering, settled: list[Range], failed: list[Range], dropped: list[Range]
) -> None:
    together, one_by_one = (flying(ordering, settled, failed, []) for _ in range(2))

    records = together.drop(dropped, 70.0, END)

    assert records == sum(one_by_one.drop([each], 70.0, END) for each in dropped)
    assert seen(together) == seen(one_by_one)


@given(some_ranges, some_ranges)
def test_a_set_takes_many_ranges_at_once_as_one_by_one(known: list[Range], new: list[Range]) -> None:
    before = sets.union(known)

    after, added = sets.add_all(before, new)

    expected: RangeSet = before
    for each in new:
        expected = sets.add(expected, each)
    assert after == expected
    assert added == sets.count(after) - sets.count(before)
