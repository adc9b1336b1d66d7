"""Sinks with pages have a turn in each sweep, empty ones in every eighth."""

from __future__ import annotations

from forebay.broker.runtime.resources.turns import EMPTY_SWEEPS, Turns


def swept(turns: Turns, sink: int, *, is_empty: bool) -> bool:
    turns.begin({sink})
    return turns.is_due(sink, is_empty=is_empty)


def test_a_sink_with_pages_has_a_turn_in_each_sweep() -> None:
    turns = Turns()

    assert all(swept(turns, 5, is_empty=False) for _ in range(20))


def test_a_sink_that_became_empty_has_one_more_turn_at_once() -> None:
    turns = Turns()
    for _ in range(20):
        swept(turns, 5, is_empty=False)

    assert [swept(turns, 5, is_empty=True) for _ in range(2)] == [True, False]


def test_an_empty_sink_has_a_turn_once_in_a_round_of_sweeps() -> None:
    turns = Turns()
    swept(turns, 5, is_empty=True)

    assert sum(swept(turns, 5, is_empty=True) for _ in range(3 * EMPTY_SWEEPS)) == 3


def test_empty_sinks_have_their_turns_in_different_sweeps() -> None:
    turns, sinks = Turns(), set(range(EMPTY_SWEEPS))
    found = []
    for _ in range(EMPTY_SWEEPS + 1):
        turns.begin(sinks)
        found.append([sink for sink in sinks if turns.is_due(sink, is_empty=True)])

    assert found[0] == sorted(sinks)
    assert [len(each) for each in found[1:]] == [1] * EMPTY_SWEEPS


def test_a_sink_that_was_deleted_is_forgotten() -> None:
    turns = Turns()
    swept(turns, 5, is_empty=True)
    turns.begin(set())

    assert swept(turns, 5, is_empty=True)
