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


def test_a_position_that_had_no_record_bounds_the_lag_once_it_is_reached() -> None:
    now = 100.0
    progress = FollowerProgress(lambda: now)
    progress.missing(20, 101.0)
    progress.missing(50, 103.0)
    now = 104.0
    progress.reached(19, end_at_s=None)
    assert progress.lag_s == 4.0

    progress.reached(25, end_at_s=None)
    assert progress.lag_s == 3.0

    progress.missing(40, 103.5)
    progress.reached(40, end_at_s=None)
    assert progress.lag_s == 0.5, "the later search has found a position that is nearer"
    progress.reached(60, end_at_s=None)
    assert progress.lag_s == 0.5


def test_a_read_that_finds_the_end_ends_the_use_of_positions_that_were_missing_before() -> None:
    progress = FollowerProgress(lambda: 110.0)
    progress.missing(20, 101.0)

    progress.reached(10, end_at_s=105.0)
    progress.reached(30, end_at_s=None)

    assert progress.lag_s == 5.0
