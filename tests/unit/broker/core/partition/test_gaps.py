from __future__ import annotations

import time

from forebay.broker.core.partition.gaps import REJECTIONS_MAX, Rejections, merged
from forebay.broker.core.partition.pages import DropReason, Gap

OVERFLOW, PURGED, REJECTED = DropReason.OVERFLOW, DropReason.PURGED, DropReason.REJECTED_BY_TARGET


def gap(first: int, end: int, *, reason: DropReason = OVERFLOW, at_us: int = 0) -> Gap:
    return Gap(first, end, reason, at_us, size=10 * (end - first), pages=1)


def rejection(offset: int, *, subscription: str = "default", at_us: int = 0, detail: str = "") -> Gap:
    return Gap(offset, offset + 1, REJECTED, at_us, 0, 0, subscription=subscription, detail=detail)


def test_a_single_drop_counts_its_offsets_for_its_reason() -> None:
    found = gap(3, 8, at_us=7)

    assert (found.counts, found.records, found.first_at_us, found.whole) == (((OVERFLOW, 5),), 5, 7, True)


def test_gaps_that_become_one_keep_counts_per_reason_and_the_first_and_last_time() -> None:
    first = gap(0, 4, reason=PURGED, at_us=9).joined(gap(4, 6, at_us=3))

    found = first.joined(gap(6, 7, at_us=5))

    assert found == Gap(0, 7, PURGED, 9, 70, 3, since_us=3, merged=((OVERFLOW, 3), (PURGED, 4)))
    assert (found.records, found.first_at_us, found.whole) == (7, 3, True)


def test_a_gap_over_settled_records_says_how_many_were_dropped() -> None:
    found = gap(0, 2).joined(gap(8, 10))

    assert (found.first, found.end, found.records, found.whole) == (0, 10, 4, False)


def test_a_cut_gap_counts_no_more_than_its_size_for_one_reason_and_all_for_several() -> None:
    assert gap(0, 10).cut(4).counts == ((OVERFLOW, 6),)
    assert gap(0, 5).joined(gap(5, 10)).cut(4).counts == ((OVERFLOW, 6),)
    assert gap(0, 5).joined(gap(5, 10, reason=PURGED)).cut(4).counts == ((OVERFLOW, 5), (PURGED, 5))
    assert gap(0, 100).counting(50).cut(20).counts == ((OVERFLOW, 50),)
    assert gap(0, 100).counting(50).cut(90).counts == ((OVERFLOW, 10),)


def test_few_gaps_stay_apart_though_they_touch() -> None:
    gaps = [gap(0, 1), gap(1, 2)]

    assert merged(gaps, most=2, settled_to=100) == (gaps, [], [])


def test_the_bound_yields_where_live_records_are_between() -> None:
    gaps = [gap(0, 1), gap(2, 3), gap(4, 5)]

    kept, gone, made = merged(gaps, most=1, settled_to=3)

    assert [(one.first, one.end) for one in kept] == [(0, 3), (4, 5)]
    assert gone == gaps[:2]
    assert made == kept[:1]


def test_a_seek_back_removes_or_cuts_the_rejections_of_its_subscription() -> None:
    wide = Gap(2, 6, REJECTED, 7, 0, 0, subscription="default")
    rejections = Rejections([rejection(0), wide, rejection(8), rejection(9, subscription="audit")])

    gone, made = rejections.take_back("default", 4)

    assert ([one.first for one in gone], [(one.first, one.end, one.records) for one in made]) == ([2, 8], [(2, 4, 2)])
    assert [(one.first, one.end) for one in rejections.all()] == [(0, 1), (2, 4), (9, 10)]
    assert rejections.take_back("default", 4) == ([], [])


def test_the_part_of_a_gap_over_other_records_counts_no_more_than_it_has_room_for() -> None:
    [kept], _, _ = merged([rejection(0), rejection(1), rejection(5)], most=1, settled_to=9)

    assert [kept.below(end).records for end in (5, 3, 2)] == [3, 3, 2]
    assert [kept.below(end).whole for end in (5, 3, 2)] == [False, True, True]


def test_a_subscription_has_gaps_of_its_own() -> None:
    rejections = Rejections([rejection(4), rejection(2, subscription="audit")])

    assert [one.first for one in rejections.of("default")] == [4]
    assert (rejections.at("default", 4), rejections.at("default", 2)) == (rejection(4), None)
    assert [one.first for one in rejections.all()] == [2, 4]
    assert rejections.of("unheard-of") == ()


def test_own_gaps_are_bounded_and_merge_over_what_the_subscription_has_settled() -> None:
    rejections = Rejections()
    for index in range(REJECTIONS_MAX):
        rejections.add("default", [rejection(2 * index, at_us=index)], settled_to=2 * index)
    end = 2 * REJECTIONS_MAX

    gone, made = rejections.add("default", [rejection(end, at_us=end, detail="last")], settled_to=end + 1)

    assert len(rejections.of("default")) == REJECTIONS_MAX
    assert [one.first for one in gone] == [0, 2]
    assert [(one.first, one.end, one.records) for one in made] == [(end, end + 1, 1), (0, 3, 2)]
    assert sum(one.records for one in rejections.of("default")) == REJECTIONS_MAX + 1


def test_own_gaps_over_records_that_are_not_settled_stay_apart_above_the_bound() -> None:
    rejections = Rejections()
    for index in range(REJECTIONS_MAX + 5):
        gone, _ = rejections.add("default", [rejection(2 * index + 1)], settled_to=0)
        assert gone == []

    assert len(rejections.of("default")) == REJECTIONS_MAX + 5


def test_gaps_that_cannot_become_fewer_are_examined_quickly() -> None:
    gaps = [gap(2 * n, 2 * n + 1) for n in range(20_000)]
    before = time.process_time()

    for _ in range(100):
        assert merged(gaps, most=1_000, settled_to=0) == (gaps, [], [])

    assert time.process_time() - before < 4.0, "it was as many seconds as a walk over all of them at each drop"
