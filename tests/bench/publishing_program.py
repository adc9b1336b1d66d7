"""Publisher in a process of its own, with the telemetry that its environment asks for.

    python -m tests.bench.publishing_program ENDPOINT SINK RECORD_BYTES BYTES

It publishes a load once to warm up, says so, and once more for each line of its standard input, which it answers with
the seconds and the processor time.
"""

from __future__ import annotations

import json
import sys
import time

from forebay.cli.telemetry import exporting
from forebay.client import Client
from tests.bench.publish import WINDOW_PAGES
from tests.bench.values import Load


def main(endpoint: str, sink: str, record_bytes: int, size: int) -> None:
    """The program."""
    load = Load(record_bytes, 1, size)
    with exporting("forebay-bench"), Client(endpoint) as client:
        _publish(client, sink, load)
        _say({"ready": True})
        for _ in sys.stdin:
            begun, spent = time.perf_counter(), time.process_time()
            _publish(client, sink, load)
            _say({"seconds": time.perf_counter() - begun, "processor_s": time.process_time() - spent})


def _publish(client: Client, sink: str, load: Load) -> None:
    with client.publisher(sink, window_pages=WINDOW_PAGES) as publisher:
        for partition, values in load:
            publisher.send_many(values, partition=partition)
        publisher.flush()


def _say(found: dict[str, bool | float]) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
