"""Reading all of a sink again, partition after partition, page by page: each page's checksum is checked."""

from __future__ import annotations

import time

from forebay.client import Client, StoredPage
from tests.bench.processes import Child
from tests.bench.values import Load, Sample


def replay(client: Client, sink: str, load: Load, process: Child) -> Sample:
    """Read what ``load`` has put into a sink; ``process`` is the broker's."""
    before = process.cost()
    begun = time.perf_counter()
    records = 0
    for page in client.replay_pages(sink):
        if isinstance(page, StoredPage):
            records += len(page)
    seconds = time.perf_counter() - begun
    if records != load.records:
        raise RuntimeError(f"{records} records were replayed, {load.records} were published")
    return Sample(records, load.payload_bytes, seconds, process.cost_since(before))
