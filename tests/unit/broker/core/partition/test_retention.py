from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.partition.retention import (
    MARKS,
    MARKS_MAX,
    Mark,
    Marks,
    keeps,
    noted,
    oldest_first,
    passed_until,
    settled_front,
)
from forebay.broker.core.settings import DEFAULTS, SECOND_US
from tests.support.pages.samples import entry

HOUR_US = 3_600 * SECOND_US


def test_settled_pages_are_kept_when_a_time_or_bytes_are_asked_for() -> None:
    assert not keeps(DEFAULTS)
    assert keeps(replace(DEFAULTS, retain_acked_time_us=1))
    assert keeps(replace(DEFAULTS, retain_acked_bytes=1))


# -- time


def test_a_mark_is_made_when_something_was_settled() -> None:
    assert noted((), 0, 5, HOUR_US) == ()
    assert noted((), 10, 5, HOUR_US) == (Mark(10, 5),)


def test_marks_are_spaced_and_the_next_one_takes_in_what_came_between() -> None:
    spacing_us = HOUR_US // MARKS
    first = noted((), 10, 0, HOUR_US)

    between = noted(first, 20, spacing_us - 1, HOUR_US)
    later = noted(between, 20, spacing_us, HOUR_US)

    assert between == first
    assert later == (Mark(10, 0), Mark(20, spacing_us))


def test_records_settled_before_the_retention_time_may_be_removed() -> None:
    marks = (Mark(10, 0), Mark(20, HOUR_US // 2))

    assert passed_until(marks, HOUR_US - 1, HOUR_US) == 0
    assert passed_until(marks, HOUR_US, HOUR_US) == 10
    assert passed_until(marks, 2 * HOUR_US, HOUR_US) == 20


def test_only_the_last_mark_that_has_passed_is_kept() -> None:
    marks = (Mark(10, 0), Mark(20, 1), Mark(30, 2))

    assert noted(marks, 30, HOUR_US + 1, HOUR_US) == (Mark(20, 1), Mark(30, 2))


def test_a_seek_back_takes_marks_back_to_what_is_still_settled() -> None:
    marks = (Mark(10, 0), Mark(20, 5), Mark(30, 7))

    assert noted(marks, 15, 8, HOUR_US) == (Mark(10, 0), Mark(15, 5))
    assert noted(marks, 0, 8, HOUR_US) == ()


Seen = list[tuple[int, int]]
"""(microseconds, offset below which all is settled), by time."""


@st.composite
def histories(draw: st.DrawFn) -> Seen:
    """Observations of the sweep, at most once a second; the watermark may move back."""
    now_us, seen = 0, []
    for _ in range(draw(st.integers(1, 60))):
        now_us += draw(st.integers(SECOND_US, 300 * SECOND_US))
        seen.append((now_us, draw(st.integers(0, 1_000))))
    return seen


@given(seen=histories(), retain_us=st.integers(SECOND_US, HOUR_US))
def test_nothing_is_removed_before_its_time_whatever_moves(seen: Seen, retain_us: int) -> None:
    marks: Marks = ()
    for index, (now_us, settled) in enumerate(seen):
        marks = noted(marks, settled, now_us, retain_us)

        released = min(settled, passed_until(marks, now_us, retain_us))
        old_enough = [(at, until) for at, until in seen[: index + 1] if at <= now_us - retain_us]
        assert released <= max((until for _, until in old_enough), default=0)
        assert len(marks) <= MARKS_MAX
        assert list(marks) == sorted(marks, key=lambda mark: (mark.at_us, mark.until))


@given(steps=st.lists(st.integers(0, 50), min_size=1, max_size=80), retain_us=st.integers(SECOND_US, HOUR_US))
def test_settled_records_may_be_removed_at_most_one_spacing_after_their_retention_time(
    steps: list[int], retain_us: int
) -> None:
    spacing_us = max(SECOND_US, retain_us // MARKS)
    marks: Marks = ()
    settled = now_us = 0
    for step in steps:
        settled, now_us = settled + step, now_us + SECOND_US
        marks = noted(marks, settled, now_us, retain_us)
    at_us = now_us
    while now_us < at_us + spacing_us:  # only the sweep continues
        now_us += SECOND_US
        marks = noted(marks, settled, now_us, retain_us)

    assert passed_until(marks, at_us + retain_us + spacing_us + SECOND_US, retain_us) == settled


def test_marks_of_a_shorter_time_are_bounded_and_the_oldest_wait_for_the_next_one() -> None:
    marks: Marks = ()
    for second in range(3 * MARKS_MAX):
        marks = noted(marks, second + 1, second * SECOND_US, HOUR_US if second > 2 * MARKS_MAX else 300 * SECOND_US)

    assert len(marks) <= MARKS_MAX
    assert noted(tuple(Mark(n, n) for n in range(1, 500)), 500, 600, HOUR_US)[-MARKS_MAX:][0].until > 1


# -- records that every subscription has settled, and the order of their removal


@st.composite
def partitions(draw: st.DrawFn) -> tuple[dict[int, list[Entry]], dict[int, list[int]]]:
    """Pages of some partitions, and the positions of several subscriptions in each."""
    subscriptions = draw(st.integers(1, 4))
    pages: dict[int, list[Entry]] = {}
    cursors: dict[int, list[int]] = {}
    for partition in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, 5))
        age = 0
        pages[partition] = []
        for count in draw(st.lists(st.integers(1, 5), max_size=8)):
            age += draw(st.integers(0, 3))
            pages[partition].append(entry(at, count, age_us=age, size=draw(st.integers(1, 30))))
            at += count
        cursors[partition] = draw(st.lists(st.integers(0, at + 1), min_size=subscriptions, max_size=subscriptions))
    return pages, cursors


@given(stored=partitions(), records=st.integers(0, 60), size=st.integers(0, 300))
def test_the_trim_rule_with_several_subscriptions(
    stored: tuple[dict[int, list[Entry]], dict[int, list[int]]], records: int, size: int
) -> None:
    """Only what all have settled goes, whole pages, from the front, the oldest first, and no more than is needed."""
    pages, cursors = stored
    fronts = {number: settled_front(entries, min(cursors[number])) for number, entries in pages.items()}

    chosen = oldest_first(fronts, records, size)

    gone = [each for entries in chosen.values() for each in entries]
    for number, entries in chosen.items():
        assert entries == pages[number][: len(entries)]
        assert all(each.end <= watermark for each in entries for watermark in cursors[number])
    left = [each for number in fronts for each in fronts[number][len(chosen.get(number, [])) :]]
    freed_records, freed_size = sum(each.count for each in gone), sum(each.size for each in gone)
    if left:
        assert freed_records >= records
        assert freed_size >= size
        assert max((each.age_us for each in gone), default=0) <= min(each.age_us for each in left)
    if gone:
        last = max(gone, key=lambda each: each.age_us)
        slack = [each for each in gone if each.age_us == last.age_us]
        assert any(freed_records - each.count < records or freed_size - each.size < size for each in slack)


def test_a_page_settled_in_part_is_not_settled() -> None:
    pages = [entry(0, 4), entry(4, 4)]

    assert settled_front(pages, 7) == pages[:1]
    assert settled_front(pages, 8) == pages
    assert settled_front(pages, 3) == []


def test_the_settled_front_reads_one_page_beyond_itself() -> None:
    pages = [entry(at) for at in range(4)]
    rest = iter(pages)

    assert settled_front(rest, 1) == pages[:1]
    assert list(rest) == pages[2:]
