"""Two brokers of a shard: the lag of the follower while all is published, then takeovers with what waits.

The owner is killed, and its follower, which is warm, serves. What is measured begins with the takeover itself: the
silence before it is a setting, and the follower waits up to a quarter of a second longer, at random.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from forebay.client import Client
from tests.bench.journal.places import Place
from tests.bench.journal.publishing import PARTITIONS, RECORD_BYTES, SINK
from tests.bench.processes import Child, child
from tests.bench.values import Load
from tests.support.stores.server import free_port

TAKEOVER_AFTER_S: Final = 2.0
SAMPLE_S: Final = 0.05
WAIT_S: Final = 60.0
LAG: Final = "forebay_follower_lag_seconds"
POSITION: Final = "forebay_journal_position"
TAKEN: Final = "took over a journal"


@dataclass(slots=True)
class Found:
    """Figures of one shard."""

    lag_s: list[float] = field(default_factory=list)
    """Lag of the follower, sampled while all is published."""

    takeover_s: list[float] = field(default_factory=list)
    """From the beginning of each takeover to the first receipt of the next owner."""

    silent_s: list[float] = field(default_factory=list)
    """From each kill to that receipt, without `TAKEOVER_AFTER_S`."""


class Member:
    """A broker of the shard, in a directory of its own."""

    def __init__(self, process: Child, log: Path, port: int) -> None:
        self.process = process
        self._log = log
        self._url = f"http://127.0.0.1:{port}/metrics"

    def figure(self, name: str) -> float:
        """Value of a gauge; -1 before the process exports it."""
        try:
            with urlopen(self._url, timeout=5.0) as answer:
                text = answer.read().decode()
        except OSError:
            return -1.0
        return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(name)), -1.0)

    def takeover_began_at(self) -> float:
        """Time at which its takeover began, in seconds since 1970."""
        for line in self._log.read_text().splitlines():
            if TAKEN in line:
                event: dict[str, Any] = json.loads(line)
                return datetime.fromisoformat(event["time"]).timestamp() - float(event["fields"]["seconds"])
        raise RuntimeError(f"{self._log} has no takeover")


def measure(place: Place, folder: Path, *, size: int, takeovers: int, say: Callable[[str], None]) -> Found:
    """Publish ``size`` bytes, and kill so many owners; none of it is acked."""
    found = Found()
    environment = {
        **place.environment,
        "FOREBAY_JOURNAL": place.address("shard"),
        "FOREBAY_TAKEOVER_AFTER_S": str(TAKEOVER_AFTER_S),
    }
    with ExitStack() as stack:

        def start(number: int) -> Member:
            log, port = folder / f"member-{number}.log", free_port()
            words = ("serve", "--data-dir", str(folder / f"member-{number % 2}"), "--listen", "127.0.0.1:0", "-o",
                     "json", "--log-format", "json", "--set", f"metrics_listen=127.0.0.1:{port}")  # fmt: skip
            process = stack.enter_context(child("forebay.cli", *words, log=log, environment=environment))
            return Member(process, log, port)

        owner = start(0)
        client = stack.enter_context(Client(str(owner.process.report()["endpoint"])))
        client.sinks.create(SINK, partitions=PARTITIONS, max_total_bytes=1 << 40)
        follower = start(1)
        _caught_up(owner, follower)
        with _sampled(follower, found.lag_s):
            _publish(client, size)
        for number in range(takeovers):
            say(f"takeover {number + 1} of {takeovers}, {place.name}")
            _caught_up(owner, follower)
            owner.process.process.kill()
            killed_at = time.time()
            owner.process.process.wait()
            endpoint = str(follower.process.report()["endpoint"])
            with Client(endpoint) as other, other.publisher(SINK) as publisher:
                publisher.send(bytes(RECORD_BYTES)).result()
                served_at = time.time()
            found.takeover_s.append(served_at - follower.takeover_began_at())
            found.silent_s.append(served_at - killed_at - TAKEOVER_AFTER_S)
            owner = follower
            if number + 1 < takeovers:
                follower = start(number + 2)
    for number in range(2):
        shutil.rmtree(folder / f"member-{number}")
    place.remove("shard")
    return found


def _publish(client: Client, size: int) -> None:
    with client.publisher(SINK, window_pages=96) as publisher:
        for partition, values in Load(RECORD_BYTES, PARTITIONS, size):
            publisher.send_many(values, partition=partition)


def _caught_up(owner: Member, follower: Member) -> None:
    """Return once the follower has read what the owner has appended."""
    ends_at = time.monotonic() + WAIT_S
    until = owner.figure(POSITION)
    while follower.figure(POSITION) < until or until < 0:
        if time.monotonic() > ends_at:
            raise RuntimeError(f"the follower has not reached position {until:.0f} in {WAIT_S:.0f} s")
        time.sleep(SAMPLE_S)


@contextmanager
def _sampled(follower: Member, into: list[float]) -> Iterator[None]:
    """Sample the lag of a follower in a thread."""
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_S):
            into.append(follower.figure(LAG))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
