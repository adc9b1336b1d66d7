"""Processor time of the console: a broker of 1,000 sinks with an open overview, beside one without a console.

A record waits in each sink, so that the overview reads an age for each of them. Both brokers run at once and have
nothing else to do. In each pair they are measured for the same time: first while no page is open, then while a client
follows the events of the overview.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import urlsplit

from forebay.client import Client, Record
from tests.bench.processes import Child, child
from tests.bench.values import Bar, Row, Sense

SINKS: Final = 1_000
SECONDS: Final = (30.0, 10.0)
"""Measured in full, and quickly."""
SAMPLE_S: Final = 5.0
"""Time between two events of an open page."""
SETTLE_S: Final = 10.0
"""Time in which the stores write what they have in memory."""
PERCENT_MAX: Final = 2.0
"""Most of a processor that an open overview may take."""


def measure(
    folder: Path, *, rounds: int, quick: bool, rows: list[Row], bars: list[Bar], say: Callable[[str], None]
) -> None:
    """Measure both brokers, pair by pair."""
    seconds = SECONDS[1] if quick else SECONDS[0]
    closed: list[tuple[float, float]] = []
    opened: list[tuple[float, float]] = []
    sizes: list[int] = []
    with _broker(folder / "without") as (without, _), _broker(folder / "with", console=True) as (console, url):
        time.sleep(SETTLE_S)
        for number in range(rounds):
            say(f"console, pair {number + 1} of {rounds}")
            closed.append(_percent((without, console), seconds))
            with _overview(url) as events:
                opened.append(_percent((without, console), seconds))
            if len(events) < seconds // SAMPLE_S:
                raise RuntimeError(f"the overview had {len(events)} events in {seconds} s")
            sizes += events
        memory = without.memory_peak_mib(), console.memory_peak_mib()
    sinks = f"{SINKS:,} sinks"
    for name, used in (
        ("without a console", [one for one, _ in (*closed, *opened)]),
        ("with a console", [one for _, one in closed]),
        ("with an open overview", [one for _, one in opened]),
    ):
        say(f"{sinks} {name}: {median(used):.2f} % of a processor")
    say(f"an event of the overview has {median(sizes) / 1024:.0f} KiB")
    rows.append(Row(f"{sinks} without a console", memory_mib=memory[0], runs=2 * rounds))
    rows.append(Row(f"{sinks} with a console", memory_mib=memory[1], runs=2 * rounds))
    for name, pairs in (("a console", closed), ("an open overview", opened)):
        percent = median(other - one for one, other in pairs)
        bars.append(Bar(f"% of a processor for {name}, {sinks}", percent, PERCENT_MAX, Sense.AT_MOST))


def _percent(processes: tuple[Child, Child], seconds: float) -> tuple[float, float]:
    """Return the shares of a processor that two processes use for some time."""
    before, begun = [one.cost() for one in processes], time.perf_counter()
    time.sleep(seconds)
    one, other = (process.cost_since(cost) for process, cost in zip(processes, before, strict=True))
    took = time.perf_counter() - begun
    return 100 * one.processor_s / took, 100 * other.processor_s / took


@contextmanager
def _broker(folder: Path, *, console: bool = False) -> Iterator[tuple[Child, str]]:
    """Run a broker with a waiting record in each sink; its process and the address of its console."""
    words = ["serve", "--data-dir", str(folder), "--listen", "127.0.0.1:0", "--log-level", "warning", "-o", "json"]
    words += ["--console-listen", "127.0.0.1:0"] if console else []
    with child("forebay.cli", *words, log=folder.with_suffix(".log")) as process:
        said = process.report()
        with Client(str(said["endpoint"])) as client:
            for number in range(SINKS):
                client.sinks.create(f"sink-{number}")
                client.publish(f"sink-{number}", [Record(bytes(256))])
        yield process, str(said.get("console", ""))


@contextmanager
def _overview(url: str) -> Iterator[list[int]]:
    """Follow the overview; yields the sizes of its events."""
    place, sizes = urlsplit(url), list[int]()
    connection = HTTPConnection(str(place.hostname), place.port)
    connection.request("GET", "/events/overview")
    response = connection.getresponse()
    if response.status != 200 or connection.sock is None:
        raise RuntimeError(f"the overview was answered with {response.status}")

    def read() -> None:
        with suppress(IncompleteRead):  # the end of the block ends the answer
            sizes.extend(len(line) for line in response if line.startswith(b"data: "))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield sizes
    finally:
        connection.sock.shutdown(socket.SHUT_RDWR)
        reader.join()
        connection.close()
