from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range, union

ACKED = Settlement.ACKED
NEXT = 40
RANGES = st.tuples(st.integers(0, NEXT), st.integers(0, NEXT)).map(lambda pair: Range(min(pair), max(pair)))


def test_an_ack_beyond_a_hole_does_not_move_the_watermark() -> None:
    cursor, fresh = Cursor().settle(Range(1, 3), ACKED)

    assert (cursor.watermark, cursor.beyond, fresh) == (0, (Range(1, 3),), 2)


def test_the_watermark_jumps_over_what_was_settled_before() -> None:
    cursor, _ = Cursor().settle(Range(1, 3), ACKED)

    cursor, fresh = cursor.settle(Range(0, 1), ACKED)

    assert (cursor.watermark, cursor.beyond, fresh) == (3, (), 1)


def test_settling_twice_changes_nothing() -> None:
    cursor, _ = Cursor().settle(Range(2, 5), ACKED)

    assert cursor.settle(Range(2, 5), Settlement.DROPPED) == (cursor, 0)


def test_only_what_is_new_is_counted() -> None:
    cursor, _ = Cursor().settle(Range(2, 4), ACKED)

    cursor, fresh = cursor.settle(Range(0, 6), Settlement.DROPPED)

    assert (fresh, cursor.acked, cursor.dropped, cursor.watermark) == (4, 2, 4, 6)


def test_record_10_before_7_does_not_move_the_watermark_past_7() -> None:  # H19
    cursor, _ = Cursor(watermark=7).settle(Range(10, 11), ACKED)

    assert cursor.watermark == 7
    assert cursor.is_settled(10)
    assert not cursor.is_settled(9)


def test_tries_are_counted_until_the_record_is_settled() -> None:
    cursor = Cursor().failed(3).failed(3).failed(1)

    assert (cursor.attempts_of(3), cursor.attempts_of(1), cursor.attempts_of(0)) == (2, 1, 0)
    settled, _ = cursor.settle(Range(3, 4), ACKED)
    assert (settled.attempts_of(3), settled.attempts_of(1)) == (0, 1)


def test_a_wrong_count_does_not_balance() -> None:
    assert Cursor(start=2, watermark=5, acked=3).balances(9)
    assert not Cursor(start=2, watermark=5, acked=2).balances(9)


@given(st.lists(st.tuples(RANGES, st.sampled_from(Settlement))))
def test_a_cursor_is_a_set_of_settled_offsets_with_a_balanced_account(
    settlements: list[tuple[Range, Settlement]],
) -> None:
    cursor = Cursor()
    model: dict[int, Settlement] = {}

    for settled, how in settlements:
        new = [offset for offset in range(*settled) if offset not in model]
        model.update(dict.fromkeys(new, how))

        cursor, fresh = cursor.settle(settled, how)

        assert fresh == len(new)
        assert cursor.balances(NEXT)
        assert cursor.pending(NEXT) == NEXT - len(model)
        assert all(cursor.is_settled(offset) == (offset in model) for offset in range(NEXT))
        assert cursor.watermark == next(offset for offset in range(NEXT + 1) if offset not in model)
        for each in Settlement:
            assert getattr(cursor, each.value) == sum(found is each for found in model.values())


@given(st.lists(RANGES), RANGES)
def test_the_unsettled_offsets_within_a_range_are_exactly_those_not_settled(
    settlements: list[Range], within: Range
) -> None:
    cursor = Cursor()
    for settled in settlements:
        cursor, _ = cursor.settle(settled, ACKED)

    found = [offset for each in cursor.unsettled(within) for offset in range(*each)]

    assert found == [offset for offset in range(*within) if not cursor.is_settled(offset)]


PIECES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=25)


@given(before=PIECES, parts=PIECES, tries=st.sets(st.integers(0, 40)))
def test_many_parts_are_settled_in_one_pass_as_one_by_one(
    before: list[tuple[int, int]], parts: list[tuple[int, int]], tries: set[int]
) -> None:
    cursor = Cursor(attempts=tuple((offset, 1) for offset in sorted(tries)))
    for first, size in before:
        cursor, _ = cursor.settle(Range(first, first + size), Settlement.SKIPPED)
    apart = union([Range(first, first + size) for first, size in parts])
    one_by_one, records = cursor, 0
    for part in apart:
        one_by_one, fresh = one_by_one.settle(part, Settlement.ACKED)
        records += fresh

    assert cursor.settle_all(apart, Settlement.ACKED) == (one_by_one, records)
