"""The guard ends what is left when the demo is gone, and nothing that has ended before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from forebay.cli.demo.processes.guard import groups_left


def test_process_groups_that_were_started_and_have_not_ended_are_left() -> None:
    assert groups_left(["+10\n", "+11\n", "-10\n", "+12\n", "nonsense\n"]) == [11, 12]


def test_the_children_of_the_demo_end_when_it_is_killed(tmp_path: Path) -> None:
    demo = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from forebay.cli.demo.processes.children import Processes\n"
        f"with Processes(Path({str(tmp_path)!r})) as processes:\n"
        "    child = processes.start('sleeper', [sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    print(child.process.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", demo], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        child = psutil.Process(int(running.stdout.readline()))

        os.kill(running.pid, signal.SIGKILL)

        _, alive = psutil.wait_procs([child], timeout=20)
        assert [found for found in alive if found.status() != psutil.STATUS_ZOMBIE] == []
