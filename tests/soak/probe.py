"""Calls a broker and says how long the answers took: from a process of its own, which has nothing else to do.

The call is answered from memory, so what it waits for is the broker's loop. A line of milliseconds as JSON, once a
second, until standard output closes.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Final

from forebay.client import Client
from tests.support.campaigns.publishers import PATIENT

CALLS: Final = 5
PAUSE_S: Final = 0.2


def main(endpoint: str) -> None:
    """Measure until no process reads the output."""
    with Client(endpoint, settings=PATIENT) as client:
        client.info()
        while True:
            taken = []
            for _ in range(CALLS):
                begun = time.perf_counter()
                client.info()
                taken.append(round((time.perf_counter() - begun) * 1e3, 2))
                time.sleep(PAUSE_S)
            try:
                print(json.dumps({"answers_ms": taken}), flush=True)
            except BrokenPipeError:
                return


if __name__ == "__main__":
    main(sys.argv[1])
