"""Process settings for bulk transfer of pages."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from forebay.process import tune
tune()
blocks = [bytes(1 << 20) for _ in range(64)]
del blocks
print(sys.getswitchinterval(), int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is set up for the C library of Linux only")
@pytest.mark.parametrize(("environment", "kept"), [({}, True), ({"MALLOC_TRIM_THRESHOLD_": "1000000"}, False)])
def test_memory_that_is_free_is_kept_for_the_next_pages_unless_it_is_configured(
    environment: dict[str, str], kept: bool
) -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)

    interval, resident_mib = run.stdout.split()
    assert float(interval) == 0.0005
    assert (int(resident_mib) > 64) == kept
