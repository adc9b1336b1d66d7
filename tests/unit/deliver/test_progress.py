from __future__ import annotations

from forebay.deliver.health import Totals
from forebay.deliver.progress import STUCK_S, Progress


def test_sends_are_stuck_when_none_has_ended_for_long() -> None:
    now = [0.0]
    progress = Progress(lambda: now[0])

    found = []
    for now[0] in (0.0, STUCK_S - 1, STUCK_S, STUCK_S + 1):
        found.append(progress.is_stuck(Totals(failing_s=now[0]), is_idle=False))

    assert found == [False, False, True, True]


def test_each_send_that_ends_is_progress_however_long_its_delivery_takes() -> None:
    now = [0.0]
    progress = Progress(lambda: now[0])

    found = []
    for number in range(20):
        now[0] += STUCK_S / 2
        found.append(progress.is_stuck(Totals(delivered=number + 1), is_idle=False))

    assert not any(found)


def test_a_time_without_work_is_not_stuck() -> None:
    now = [0.0]
    progress = Progress(lambda: now[0])
    progress.is_stuck(Totals(), is_idle=False)

    now[0] = 10 * STUCK_S
    idle = progress.is_stuck(Totals(), is_idle=True)
    now[0] += 1.0

    assert (idle, progress.is_stuck(Totals(), is_idle=False)) == (False, False)
