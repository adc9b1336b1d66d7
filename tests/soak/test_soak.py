"""A soak of a few seconds, a part of ``make test-campaigns``; ``make soak MINUTES=n`` is the real one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.soak.mix import DIMENSIONS, KNOWN, plan
from tests.soak.report import JUDGED_S
from tests.soak.running import Options, run
from tests.soak.samples import Sample, growth


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_lost_and_the_disk_space_is_released_when_sinks_of_all_kinds_work_for_a_few_seconds(
    tmp_path: Path,
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    told: list[str] = []

    report = run(Options(minutes=0.1, sinks=10, seed=seed, directory=tmp_path, say=told.append))

    assert report.verdicts["nothing_lost"], "\n".join([report.line(), *told])
    assert report.acknowledged > 100
    assert report.delivered > 100


def test_every_setting_that_sinks_have_is_drawn_and_no_other() -> None:
    drawn = {name for number in range(50) for name in plan(number, random.Random(number)).options}

    assert set(DIMENSIONS) & KNOWN <= drawn <= KNOWN


def test_memory_that_grows_in_the_second_half_is_reported() -> None:
    def at(second: int, private_bytes: int) -> Sample:
        return Sample(second, private_bytes, private_bytes, 0, 0, 0, 0, 0.0, ())

    flat = [at(second, 100) for second in range(0, 1_000, 10)]
    rising = [at(second, 100 + second) for second in range(0, 1_000, 10)]

    assert growth(flat, JUDGED_S) == 0.0
    assert growth(rising, 1_000.0) > 0.1
