from __future__ import annotations

from forebay.broker.core.publish.writer import WINDOW, Forgotten, Slot, WriterWindow
from forebay.errors.reasons import Reason
from tests.support.refusals import refusal


def accepted(*sequences: int) -> WriterWindow:
    window = WriterWindow()
    for sequence in sequences:
        assert window.judge(0, sequence, crc32=sequence) is None
        window.accept(Slot(sequence, sequence, first=10 * sequence, count=10))
    return window


def test_any_number_may_be_the_first() -> None:
    assert WriterWindow().judge(0, 77, 1) is None


def test_pages_are_new_in_their_order() -> None:
    window = accepted(5, 6, 7)

    assert (window.highest, window.expected) == (7, 8)


def test_a_known_sequence_with_the_same_data_is_answered_with_its_slot() -> None:
    assert accepted(0, 1, 2).judge(0, 1, crc32=1) == Slot(1, 1, first=10, count=10)


def test_a_known_sequence_with_other_data_is_a_conflict() -> None:
    with refusal(Reason.SEQUENCE_CONFLICT):
        accepted(0, 1, 2).judge(0, 1, crc32=99)


def test_a_known_writer_may_not_skip() -> None:
    with refusal(Reason.SEQUENCE_GAP) as refused:
        accepted(0, 1).judge(3, 3, 3)

    assert refused.value.facts == {"partition": "3", "sequence": "3", "expected": "2"}


def test_a_first_page_that_was_refused_is_still_the_expected_one() -> None:
    window = WriterWindow()
    assert window.judge(0, 0, 0) is None  # and then there was no room for it

    with refusal(Reason.SEQUENCE_GAP):
        window.judge(0, 1, 1)

    assert window.judge(0, 0, 0) is None


def test_before_the_first_acceptance_an_earlier_page_is_a_gap() -> None:
    window = WriterWindow()
    window.judge(0, 5, 5)

    with refusal(Reason.SEQUENCE_GAP):
        window.judge(0, 4, 4)


def test_a_window_below_the_highest_it_is_a_duplicate_without_offsets() -> None:
    window = accepted(*range(WINDOW + 10))

    assert isinstance(window.judge(0, 9, crc32=9), Forgotten)
    assert window.judge(0, 10, crc32=10) == Slot(10, 10, first=100, count=10)


def test_within_the_window_but_unknown_it_is_a_gap_and_never_a_duplicate() -> None:
    window = accepted(10, 11)

    with refusal(Reason.SEQUENCE_GAP):
        window.judge(0, 9, crc32=9)


def test_a_window_that_was_read_again_continues_where_it_was() -> None:
    window = WriterWindow((Slot(6, 6, 60, 10), Slot(7, 7, 70, 10)))

    assert (window.highest, window.expected) == (7, 8)
    assert window.judge(0, 6, 6) == Slot(6, 6, 60, 10)
    assert window.judge(0, 8, 8) is None


def test_only_a_window_of_slots_is_kept() -> None:
    window = accepted(*range(3 * WINDOW))

    known = [n for n in range(3 * WINDOW) if isinstance(window.judge(0, n, n), Slot)]
    assert known == list(range(2 * WINDOW, 3 * WINDOW))
