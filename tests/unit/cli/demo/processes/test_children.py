"""Children are apply, can be killed with all that they started, and are never left behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from forebay.cli.demo.processes.children import ChildFailed, Processes

READY = 'import json, sys, time; print("noise"); print(json.dumps({"ready": 7}), flush=True)'


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_child_is_ready_when_it_says_so_and_noise_is_ignored(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        child = processes.start("echo", python(READY + "; sys.stdin.read()"))

        reports = list(processes.wait_for(child, "ready", timeout_s=20))

        assert [report.facts for report in reports] == [{"ready": 7}]
        assert child.running


def test_a_child_that_ends_too_early_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        child = processes.start("broken", python("import sys; sys.exit('no disk left')"))

        with pytest.raises(ChildFailed, match=r"broken process ended with code 1(.|\n)*no disk left"):
            list(processes.wait_for(child, "ready", timeout_s=20))


def test_a_child_that_never_gets_ready_is_an_error(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        child = processes.start("silent", python("import sys; sys.stdin.read()"))

        with pytest.raises(ChildFailed, match="not ready after 0 s"):
            list(processes.wait_for(child, "ready", timeout_s=0.2))


def test_killing_a_child_kills_what_it_started(tmp_path: Path) -> None:
    starts_another = (
        "import json, subprocess, sys\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(json.dumps({'other': other.pid}), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with Processes(tmp_path) as processes:
        child = processes.start("parent", python(starts_another))
        (report,) = processes.wait_for(child, "other", timeout_s=20)

        child.kill()

        assert not child.running
        assert _ended(report.facts["other"])


def test_leaving_the_block_leaves_no_child(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        child = processes.start("stubborn", python("import time; time.sleep(600)"))

    assert not child.running
    with pytest.raises(ProcessLookupError):
        os.killpg(child.process.pid, 0)


def test_a_child_that_is_asked_to_stop_ends_with_its_own_code(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        child = processes.start("polite", python(READY + "; sys.stdin.read(); sys.exit(3)"))
        list(processes.wait_for(child, "ready", timeout_s=20))
        child.end_input()
        child.process.wait(20)

        assert child.stop() == 3


def test_waiting_for_reports_ends_in_time_when_none_arrives(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("silent", python("import sys; sys.stdin.read()"))
        begun = time.monotonic()

        assert list(processes.reports(begun + 0.1)) == []
        assert time.monotonic() - begun < 5


def _ended(pid: int) -> bool:
    """Return True if the process ends soon; an uncollected zombie has ended too."""
    try:
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            process.wait(10)
    except psutil.NoSuchProcess:
        return True
    return process.status() == psutil.STATUS_ZOMBIE if process.is_running() else True
