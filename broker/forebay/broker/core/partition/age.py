"""Age over a restart: time that passed since the broker's own clock was last stored.

On the same boot of the machine the boot clock measures it: nothing sets that clock, so the wall clock is not needed.
After a reboot only the wall clock is left. It is trusted within a bound: never backwards, and not beyond the bound.
"""

from __future__ import annotations

from forebay.broker.core.writes import PutAge


def elapsed_us(stored: PutAge, now: PutAge, *, max_step_us: int) -> tuple[int, int]:
    """Return the time between two readings, and the step of the wall clock if it was not trusted, else 0.

    The age of ``now`` is ignored. ``max_step_us`` is the largest step of the wall clock that is trusted.
    """
    if not stored.wall_us:
        return 0, 0
    if stored.boot and stored.boot == now.boot and stored.boot_us <= now.boot_us:
        return now.boot_us - stored.boot_us, 0
    step_us = now.wall_us - stored.wall_us
    return (step_us, 0) if 0 <= step_us <= max_step_us else (0, step_us)
