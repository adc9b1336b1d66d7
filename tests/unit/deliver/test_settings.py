"""Settings of a deliverer."""

from __future__ import annotations

import pytest

from forebay.deliver import BatchLimits, DelivererSettings

MIB = 1 << 20


@pytest.mark.parametrize(
    ("limits", "credit"),
    [
        ([BatchLimits()], (20_000, 16 * MIB)),
        ([BatchLimits(10_000, 8 * MIB)], (160_000, 16 * MIB)),
        ([BatchLimits(10_000, 64 * MIB)], (160_000, 128 * MIB)),
        ([BatchLimits(), BatchLimits(5_000, 20 * MIB)], (80_000, 40 * MIB)),
        ([BatchLimits.of_target()], (10_000_000, 1 << 30)),
    ],
)
def test_the_credit_suffices_for_the_batches_of_all_threads(limits: list[BatchLimits], credit: tuple[int, int]) -> None:
    assert DelivererSettings(concurrency=8).credit(limits) == credit


def test_credit_that_is_set_stays_as_it_is() -> None:
    settings = DelivererSettings(credit_records=7, credit_bytes=9)

    assert settings.credit([BatchLimits(10_000, 64 * MIB)]) == (7, 9)
