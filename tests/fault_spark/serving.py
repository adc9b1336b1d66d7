"""A broker process with the sink ``orders``, killed and started again at one address; what has to hold of the sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from forebay.client import Client
from forebay.client.errors import NotFound
from tests.fault_spark.driver import Work
from tests.fault_spark.looker import committed, watched
from tests.support.processes.broker import BrokerProcess, free_port
from tests.support.processes.stopping import StoppingLauncher
from tests.support.processes.stops import Stop

PARTITIONS: Final = 3


class Serving:
    """Used from one thread."""

    def __init__(self, launcher: StoppingLauncher, folder: Path) -> None:
        self._launcher = launcher
        self.store: Final = folder / "store"
        self.endpoint: Final = f"127.0.0.1:{free_port()}"
        self.process = self.start()
        with Client(self.endpoint) as client:
            client.sinks.create("orders", partitions=PARTITIONS)

    def start(self) -> BrokerProcess:
        """Start it."""
        self.process = self._launcher.start(self.store, self.endpoint)
        self.process.ready()
        return self.process

    def start_to(self, stop: Stop) -> BrokerProcess:
        """Stop it as asked, and start it to be killed or held at a step of its store."""
        self.process.terminate()
        self.process = self._launcher.start_to(stop, self.store, self.endpoint)
        self.process.ready()
        return self.process

    def has_committed(self) -> bool:
        """Return True if the sink's only producer has an epoch."""
        with Client(self.endpoint) as client:
            [producer] = client.epochs.list("orders")
            try:
                client.epochs.get("orders", producer.producer)
            except NotFound:
                return False
            return True

    def wait_committed(self) -> None:
        """Return when there are records."""
        with Client(self.endpoint) as client:
            next(stats for stats in client.sinks.watch("orders", interval_s=0.1) if stats.records)

    def wait_staged(self) -> None:
        """Return when something is staged."""
        with Client(self.endpoint) as client:
            next(stats for stats in client.sinks.watch("orders", interval_s=0.1) if stats.staged_records)


@contextmanager
def written_once(serving: Serving, wanted: Work) -> Iterator[None]:
    """Whatever the block does: all is there once and was never there in part, and nothing stays staged."""
    with watched(serving.endpoint, wanted, PARTITIONS):
        yield
    batches = committed(Path(wanted.checkpoint), "offsets") + 1
    with Client(serving.endpoint) as client:
        stats = client.sinks.stats("orders")
    assert stats.identity_ok
    assert (stats.records, stats.staged_records) == (batches * wanted.rows, 0)
