"""A reader that polls a sink continuously, whichever process is killed meanwhile."""

from __future__ import annotations

import random
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from forebay.client import Client, ClientSettings, ForebayError, Gap, RetryPolicy
from tests.fault_spark.driver import Work
from tests.support.oracles.spark import CLEAN, NONE, Look, judge

BETWEEN_LOOKS_S: Final = 0.02
ONCE: Final = RetryPolicy(tries_max=1, budget_s=1.0)
HASTY: Final = ClientSettings(call_timeout_s=5.0, retry=ONCE, reconnect=ONCE, reattach_timeout_s=0.0)
"""A read that a kill interrupted is discarded, so no call is retried."""

PATIENT: Final = ClientSettings()


def number_of(value: bytes) -> int:
    """The number of a row."""
    return int(value.rstrip(b"."))


def committed(checkpoint: Path, kind: str = "commits") -> int:
    """The last batch in one of Spark's two logs of a query; ``NONE`` before the first."""
    folder = checkpoint / kind
    names = folder.iterdir() if folder.exists() else ()
    return max((int(one.name) for one in names if one.name.isdecimal()), default=NONE)


class Looker(threading.Thread):
    """Reads what is new in each partition, again and again. What it found may be taken once it has ended."""

    def __init__(self, endpoint: str, sink: str, partitions: int, checkpoint: Path, chance: random.Random) -> None:
        super().__init__(name="looker", daemon=True)
        self._endpoint = endpoint
        self._sink = sink
        self._checkpoint = checkpoint
        self._chance = chance
        self._ended = threading.Event()
        self.rows: Final = {partition: array("q") for partition in range(partitions)}
        """Numbers, by partition and offset."""
        self.looks: Final[list[Look]] = []
        self.faults: Final[list[str]] = []
        """Failures that no kill explains."""

    def run(self) -> None:
        """Look until it is stopped."""
        while not self._ended.is_set() and not self.faults:
            # A failed connection is discarded: its backoff would grow with each attempt to reconnect.
            with Client(self._endpoint, settings=HASTY) as client:
                try:
                    while not self._ended.wait(BETWEEN_LOOKS_S) and not self.faults:
                        self._look(client)
                except ForebayError as error:
                    if not error.retryable:
                        self.faults.append(f"a look failed: {error!r}")
            self._ended.wait(BETWEEN_LOOKS_S)

    def end(self) -> None:
        """End; twice is fine, and so is never having begun."""
        self._ended.set()
        if self.ident is not None:
            self.join()

    def stop(self) -> None:
        """End, and look once more at a broker that runs."""
        self.end()
        if not self.faults:
            with Client(self._endpoint, settings=PATIENT) as client:
                self._look(client)

    def _look(self, client: Client) -> None:
        promised = committed(self._checkpoint)
        order = self._chance.sample(sorted(self.rows), k=len(self.rows))
        ends = tuple((partition, self._read(client, partition)) for partition in order)
        self.looks.append(Look(promised, ends))

    def _read(self, client: Client, partition: int) -> int:
        """Read on to the end of a partition; what was read stays when the look is broken off."""
        numbers = self.rows[partition]
        with client.replay(self._sink, partition=partition, start=len(numbers), on_gap="yield") as records:
            for record in records:
                if isinstance(record, Gap) or record.offset != len(numbers):
                    self.faults.append(f"partition {partition} went from {len(numbers)} to {record}")
                    break
                numbers.append(number_of(record.value))
        return len(numbers)


def faults_of_what_is_left(endpoint: str, sink: str, rows: Mapping[int, Sequence[int]]) -> list[str]:
    """Read a sink from its beginning, when all that wrote has ended, and say what is not as it was seen before."""
    again = Looker(endpoint, sink, len(rows), Path(), random.Random(0))
    again.stop()
    faults = list(again.faults)
    if again.rows != rows:
        faults.append("another reader finds other records")
    with Client(endpoint, settings=PATIENT) as client:
        stats = client.sinks.stats(sink)
        producers = list(client.epochs.list(sink))
    if not stats.identity_ok or stats.staged_records:
        faults.append(f"the account does not balance, or something is staged still: {stats}")
    if len(producers) != 1:
        faults.append(f"the sink knows other producers than the one query: {producers}")
    return faults


@contextmanager
def watched(endpoint: str, work: Work, partitions: int) -> Iterator[Looker]:
    """Read a query's sink while the block runs, and compare what was read with the oracle afterwards."""
    checkpoint = Path(work.checkpoint)
    looker = Looker(endpoint, work.sink, partitions, checkpoint, random.Random(0))
    looker.start()
    try:
        yield looker
        looker.stop()
    finally:
        looker.end()
    batches = committed(checkpoint, "offsets") + 1
    verdict = judge(looker.rows, batches=batches, batch_rows=work.rows, looks=looker.looks)
    assert looker.faults == []
    assert verdict == CLEAN, f"{verdict} of {batches} micro-batches, {len(looker.looks)} looks"
    assert batches > 0
