"""Budget of what streams hold: who may take more, and which streams are ended when it is used up."""

from __future__ import annotations

from forebay.broker.core.resources.stream_budget import STALLED_S, STEP_BYTES, StreamBudget, StreamShare

NOW = 1_000.0


def holding(budget: StreamBudget, size: int, *, at: float = NOW) -> StreamShare:
    share = StreamShare()
    budget.add(share, size, at)
    return share


def test_a_stream_that_holds_nothing_may_take_what_is_free() -> None:
    budget = StreamBudget(100)
    holding(budget, 60)

    assert budget.fits(StreamShare(), 40)
    assert not budget.fits(StreamShare(), 41)


def test_a_stream_that_holds_something_may_take_more_only_within_half_of_the_budget() -> None:
    budget = StreamBudget(100)
    share = holding(budget, 30)

    assert budget.fits(share, 20)
    assert not budget.fits(share, 21)


def test_a_size_beyond_the_budget_fits_while_no_stream_holds_any_of_it() -> None:
    assert StreamBudget(100).fits(StreamShare(), 1_000)


def test_returned_bytes_are_free_and_never_exceed_the_bytes_taken() -> None:
    budget = StreamBudget(100)
    share = holding(budget, 60)
    budget.remove(share, 20, NOW)
    assert (budget.used, share.held) == (40, 40)

    budget.remove(share, 1_000, NOW)

    assert (budget.used, share.held) == (0, 0)


def test_a_step_is_the_smaller_the_less_is_free() -> None:
    budget = StreamBudget(1 << 30)
    steps = [budget.step_bytes()]
    for part in (0.85, 0.98, 1.0, 2.0):
        budget.used = int(budget.bytes_max * part)
        steps.append(budget.step_bytes())

    assert steps == sorted(steps, reverse=True)
    assert (steps[0], steps[-1]) == (STEP_BYTES[1], STEP_BYTES[0])
    assert steps[1] < steps[0]


def test_those_that_hold_the_most_and_make_no_progress_are_ended_first() -> None:
    budget = StreamBudget(100)
    small, large = holding(budget, 10), holding(budget, 50)
    moving = holding(budget, 40)
    budget.remove(moving, 1, NOW + STALLED_S)

    assert budget.stalled(NOW + STALLED_S, 45) == [large]
    assert budget.stalled(NOW + STALLED_S, 55) == [large, small]
    assert budget.stalled(NOW + STALLED_S, 1_000) == [large, small]


def test_no_stream_is_ended_while_there_is_room_or_progress() -> None:
    budget = StreamBudget(100)
    holding(budget, 50)

    assert budget.stalled(NOW + STALLED_S, 50) == []
    assert budget.stalled(NOW + STALLED_S - 0.1, 90) == []
