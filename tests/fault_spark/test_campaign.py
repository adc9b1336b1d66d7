"""A short campaign, to see that it can be believed before the long one begins."""

from __future__ import annotations

import random
from pathlib import Path

from tests.fault_spark.campaign import Options, run


def test_every_micro_batch_is_there_once_and_whole_when_broker_workers_and_driver_are_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    told: list[str] = []

    report = run(
        Options(
            kills=5,
            seed=seed,
            directory=tmp_path,
            master="local[2]",
            victims=("broker", "worker", "committer", "broker"),
            say=told.append,
        )
    )

    assert report.ok, "\n".join([report.line(), *told])
    assert report.kills["all"] == 5  # the last one is the driver's
    assert report.batches >= 2
    assert report.looks >= 10
