from __future__ import annotations

from forebay.broker.storage.replication.followers.progress import FollowerProgress


def test_the_lag_grows_until_the_end_is_read_and_from_the_begin_of_that_read_on() -> None:
    now = 100.0
    progress = FollowerProgress(lambda: now)
    now = 104.0
    progress.reached(7, end_at_s=None)
    assert (progress.position, progress.lag_s) == (7, 4.0)

    progress.reached(9, end_at_s=103.5)
    assert (progress.position, progress.lag_s) == (9, 0.5)
    now = 110.0
    assert progress.lag_s == 6.5
