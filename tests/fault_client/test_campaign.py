"""Some rounds of the campaign: the long one is ``make fault-client``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault_client.campaign import run
from tests.fault_client.faults import KINDS_OF_FAULT


@pytest.mark.campaign
@pytest.mark.slow
def test_a_publisher_and_a_subscriber_continue_after_resets_and_a_kill_and_nothing_is_lost(tmp_path: Path) -> None:
    kinds = tuple(kind for kind in KINDS_OF_FAULT if kind.name in {"stream reset", "broker killed"})

    found = run(2, tmp_path, kinds=kinds, slack_s=40.0)

    assert (found.failed, found.counts["rounds"], found.counts["acknowledged"] > 0) == ([], 2, True), found.remarks
