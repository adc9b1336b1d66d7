"""The quickstart, as a user starts it: without Spark, without Java, without anything installed beside Forebay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

LIMIT_S: Final = 20.0
"""Promised duration on a machine that does nothing else."""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_quickstart_loses_nothing_in_less_than_20_seconds_and_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "JAVA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "forebay.cli", "quickstart", "-o", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100, check=False)

    share = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # processes for each processor: other tests run, too

    assert ended.returncode == 0, ended.stderr
    facts = json.loads(ended.stdout)
    assert facts["ok"]
    assert facts["records_in"] == facts["delivered"] > 0
    assert facts["outage_s"] >= 4
    assert facts["elapsed_s"] < LIMIT_S * share
    assert facts["peak_waiting"] > 0
    assert (facts["lost"], facts["out_of_order"], facts["broker_kills"]) == (0, 0, 1)
    assert not list(tmp_path.glob("forebay-demo-*"))
