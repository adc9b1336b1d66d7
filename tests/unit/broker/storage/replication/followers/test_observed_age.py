"""Age clock over a takeover: another machine's wall clock ages no record."""

from __future__ import annotations

from dataclasses import replace

from forebay.broker.core.writes import PutAge
from forebay.broker.runtime.clock import AgeClock, FakeClock
from forebay.broker.storage.records.store import AGE
from forebay.broker.storage.replication.followers.observed_age import ObservedAge, observed_age
from forebay.broker.storage.store.contract import Delete, Family, Put

HOUR_US = 3_600_000_000


def test_a_new_owner_measures_the_time_since_the_former_one_by_its_own_clock() -> None:
    for skew_us in (-HOUR_US, 0, HOUR_US):
        clock = FakeClock()
        stored = PutAge(7 * HOUR_US, clock.wall - skew_us, b"another machine", 5)
        observed = observed_age([AGE.put(AGE.key(), stored)], clock.boot_us())
        assert observed is not None
        clock.advance(3)

        age = AgeClock(clock, observed.by_clock_of(clock.boot, stored))

        assert (age.now_us(), age.rejected_step_us) == (7 * HOUR_US + 3_000_000, 0)


def test_on_the_same_boot_of_a_machine_the_stored_clock_is_exact() -> None:
    stored = PutAge(1, 2, b"a boot", 3)

    assert ObservedAge(1, 10).by_clock_of(b"a boot", stored) == stored


def test_a_reading_that_was_not_observed_is_left_as_it_is() -> None:
    stored = PutAge(1, 2, b"another machine", 3)

    assert ObservedAge(0, 10).by_clock_of(b"a boot", stored) == stored
    assert ObservedAge(1, 10).by_clock_of(b"a boot", stored) == replace(stored, boot=b"a boot", boot_us=10)


def test_a_batch_without_a_reading_has_none() -> None:
    assert observed_age([Put(Family.META, b"number", b"x"), Delete(Family.META, AGE.key())], 1) is None
