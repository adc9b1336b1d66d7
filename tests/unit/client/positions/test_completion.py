"""Records of a partition that are finished in any order."""

from __future__ import annotations

import pytest

from forebay.client import InvalidArgument
from forebay.client.positions.completion import Completion


def test_the_position_is_the_lowest_record_that_is_not_finished() -> None:
    found = Completion(5)
    found.hand_out(5, 14)

    assert not found.finish(10, 12)
    assert not found.finish(6, 8)
    assert (found.position, found.unfinished) == (5, 4)
    assert found.finish(5, 5)
    assert found.position == 9
    assert found.finish(9, 14)
    assert (found.position, found.unfinished) == (15, 0)


def test_record_ten_that_is_finished_before_seven_does_not_move_the_position_past_six() -> None:
    found = Completion(0)
    found.hand_out(0, 10)
    found.finish(0, 5)

    found.finish(10, 10)

    assert found.position == 6


def test_offsets_that_were_never_handed_out_between_two_pages_are_passed() -> None:
    found = Completion(0)
    found.hand_out(0, 1)
    found.finish(0, 1)

    found.hand_out(5, 6)

    assert found.position == 5


def test_finishing_twice_has_no_effect() -> None:
    found = Completion(0)
    found.hand_out(0, 9)
    found.finish(0, 4)

    assert not found.finish(0, 4)
    assert not found.finish(2, 2)
    assert (found.position, found.unfinished) == (5, 5)


@pytest.mark.parametrize(("first", "last"), [(0, 10), (10, 10), (3, 2), (-1, 0)])
def test_records_that_were_not_handed_out_cannot_be_finished(first: int, last: int) -> None:
    found = Completion(0)
    found.hand_out(0, 9)

    with pytest.raises(InvalidArgument):
        found.finish(first, last)
