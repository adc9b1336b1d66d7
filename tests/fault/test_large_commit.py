"""A broker is killed in a commit that is so large that it writes ahead: see ``large_commit``."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.runtime.epochs.placement import AHEAD_FROM
from tests.fault.large_commit import Campaign, Size
from tests.support.processes.stopping import StoppingLauncher

KILLS = 3
CUT = 1
SEED = 5


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_large_commit_that_is_killed_is_whole_or_absent_and_leaves_nothing_behind(
    launcher: StoppingLauncher, in_memory: Path
) -> None:
    size = Size()
    assert size.records > AHEAD_FROM
    campaign = Campaign(launcher, in_memory, size, SEED)

    report = campaign.run(KILLS, cut=CUT)
    campaign.read_all()

    assert report.wrong == []
    assert report.kills == report.nothing + report.whole
    assert report.cut >= CUT, "no kill came while a commit wrote"
    assert report.epochs > 1
