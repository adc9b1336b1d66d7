"""A process knows whether it is the child of a fork of the one that made an object."""

from __future__ import annotations

import subprocess
import sys

CHILD = """
import os
from forebay.client.transport.forks import PROCESS

before = PROCESS.forks
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        os._exit(PROCESS.forks - before)
    _, status = os.waitpid(grandchild, 0)
    os._exit(10 * os.waitstatus_to_exitcode(status) + PROCESS.forks - before)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), PROCESS.forks - before)
"""


def test_each_fork_counts_in_its_child_and_not_in_its_parent() -> None:
    found = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=60, check=True)

    assert found.stdout.split() == ["21", "0"]
