"""A few trials of the campaign of backups; ``make fault-backup`` has more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.backup_campaign import Campaign
from tests.support.processes.stopping import StoppingLauncher


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_backups_of_a_broker_at_work_that_is_killed_now_and_then_are_whole_or_recognised(
    tmp_path: Path, launcher: StoppingLauncher
) -> None:
    result = Campaign(launcher, tmp_path, seed=7).run(trials=6)

    assert result.wrong == []
    assert result.complete >= 1
    assert result.records > 0
    assert result.epochs > 0
    assert result.settled > 0
    assert result.dead_letters > 0
