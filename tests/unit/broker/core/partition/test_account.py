from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.partition.account import Totals, opened
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.pages import DropReason, Gap
from forebay.broker.core.partition.ranges import Range

END = 60


def gap(first: int, end: int) -> Gap:
    return Gap(first, end, DropReason.OVERFLOW, 0, 10, 1)


@st.composite
def gap_lists(draw: st.DrawFn) -> list[Gap]:
    """Gaps apart from each other, below the end."""
    ends = draw(st.lists(st.integers(0, END), max_size=8, unique=True).map(sorted))
    return [gap(first, end) for first, end in zip(ends[::2], ends[1::2], strict=False)]


STEPS = st.lists(st.tuples(st.integers(0, END), st.integers(1, 20), st.sampled_from(Settlement)), max_size=8)


def test_an_account_counts_what_is_missing_after_its_start_as_dropped() -> None:
    cursor = opened(5, [gap(0, 3), gap(4, 8), gap(10, 12)])

    assert (cursor.start, cursor.watermark, cursor.beyond) == (5, 8, (Range(10, 12),))
    assert (cursor.dropped, cursor.pending(20)) == (5, 10)


def test_gaps_after_the_start_are_not_reported_yet() -> None:
    assert opened(5, [gap(4, 8)]).notified == 5


@given(start=st.integers(0, END), gaps=gap_lists())
def test_a_new_account_balances_wherever_it_begins(start: int, gaps: list[Gap]) -> None:
    cursor = opened(start, gaps)

    missing = {offset for each in gaps for offset in range(each.first, each.end) if offset >= start}
    assert cursor.balances(END)
    assert (cursor.dropped, cursor.pending(END)) == (len(missing), END - start - len(missing))


@given(starts=st.lists(st.integers(0, END), min_size=1, max_size=5), steps=STEPS, gaps=gap_lists())
def test_the_totals_hold_every_record_of_every_account_once(
    starts: list[int], steps: list[tuple[int, int, Settlement]], gaps: list[Gap]
) -> None:
    totals, cursor = Totals(), Cursor()
    spans = 0
    for start in starts:
        for first, size, how in steps:
            cursor, _ = cursor.settle(Range(first, min(END, first + size)), how)
        assert cursor.balances(END)
        totals = totals.closed(cursor, END)
        spans += END - cursor.start
        cursor = opened(start, gaps)

    assert totals.seeks == len(starts)
    assert totals.acked + totals.dead_lettered + totals.dropped + totals.skipped == spans


def test_the_open_account_is_part_of_a_life() -> None:
    closed = Totals(1, 2, 3, 4, 5)

    assert closed.with_open(Cursor(acked=10, dead_lettered=20, dropped=30, skipped=40)) == Totals(11, 22, 33, 44, 5)


@pytest.mark.slow
def test_an_account_over_tens_of_thousands_of_gaps_is_opened_in_one_pass() -> None:
    gaps = [gap(2 * n, 2 * n + 1) for n in range(50_000)]
    before = time.process_time()

    cursor = opened(0, gaps)

    assert cursor.dropped == len(gaps)
    assert time.process_time() - before < 3.0, "it was minutes when the cursor was recreated for each of them"
