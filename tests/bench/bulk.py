"""One case in bulk: a size of record and a number of partitions, round by round.

Each round has a broker and a folder of its own, so that nothing of the round before is left to be cleaned up, and
measures the disk and the bare stream right beside what is held against them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from forebay.client import Client
from tests.bench import disk, echo
from tests.bench.deliver import deliver
from tests.bench.processes import broker
from tests.bench.publish import publish
from tests.bench.replay import replay
from tests.bench.values import MIB, Bar, Load, Row, Sample, Sense, row_of

FEW_PARTITIONS: Final = 4
"""Up to so many, each gets enough at once to be written in files of its own."""
PUBLISH_BARS: Final = (0.55, 0.3)
"""With few partitions, and with many."""
REPLAY_BAR: Final = 0.6
DELIVER_BAR: Final = 0.8
WRITTEN_BAR: Final = 1.3
DISK_BYTES: Final = 256 * MIB


@dataclass(frozen=True, slots=True)
class Round:
    """Measurements, taken one after the other."""

    disk: Sample
    bare: Sample
    tuned: Sample
    """The bare stream with the broker's own settings."""
    publish: Sample
    replay: Sample
    deliver: Sample
    memory_mib: float
    """Peak of the broker."""

    @property
    def reachable_bytes_per_s(self) -> float:
        """Limit set by the slower of disk and transport."""
        return min(self.disk.bytes_per_s, self.bare.bytes_per_s)


def measure(folder: Path, load: Load, echoes: tuple[str, str], number: int) -> Round:
    """One round in ``folder``, which is emptied again. ``echoes``: where the bare stream and the tuned one are."""
    place = folder / f"round-{load.record_bytes}-{load.partitions}-{number}"
    place.mkdir()
    try:
        before = disk.write_and_sync(place, DISK_BYTES)
        bare, tuned = (echo.stream(endpoint, load) for endpoint in echoes)
        with broker(place / "data", folder / "broker.log") as (process, endpoint), Client(endpoint) as client:
            client.sinks.create("bench", partitions=load.partitions, max_total_bytes=1 << 40)
            published = publish(client, "bench", load, process)
            after = disk.write_and_sync(place, DISK_BYTES)
            replayed = replay(client, "bench", load, process)
            delivered = deliver(client, "bench", load, process)
            memory_mib = process.memory_peak_mib()
    finally:
        shutil.rmtree(place)
        os.sync()
    around = Sample(before.records + after.records, before.payload_bytes + after.payload_bytes,
                    before.seconds + after.seconds)  # fmt: skip
    return Round(around, bare, tuned, published, replayed, delivered, memory_mib)


def rows_of(load: Load, rounds: list[Round]) -> list[Row]:
    """The rows of a case."""
    place = {"record_bytes": load.record_bytes, "partitions": load.partitions}
    memory_mib = max(one.memory_mib for one in rounds)
    return [
        row_of("bare gRPC stream", [one.bare for one in rounds], **place),
        row_of("the same, tuned", [one.tuned for one in rounds], **place),
        row_of("publish", [one.publish for one in rounds], **place, memory_mib=memory_mib),
        row_of("replay", [one.replay for one in rounds], **place),
        row_of("deliver with ack", [one.deliver for one in rounds], **place),
    ]


def bars_of(load: Load, rounds: list[Round]) -> list[Bar]:
    """The bars of a case."""
    few = load.partitions <= FEW_PARTITIONS
    place = f"{load.record_bytes} B, {load.partitions} partition{'s' if load.partitions > 1 else ''}"

    def ratio(of: Callable[[Round], float]) -> float:
        return median(of(one) for one in rounds)

    bars = [
        Bar(
            f"publish / slower of disk and bare stream, {place}",
            ratio(lambda one: one.publish.bytes_per_s / one.reachable_bytes_per_s),
            PUBLISH_BARS[0] if few else PUBLISH_BARS[1],
        ),
        Bar(
            f"replay / bare stream, {place}",
            ratio(lambda one: one.replay.bytes_per_s / one.bare.bytes_per_s),
            REPLAY_BAR,
        ),
        Bar(
            f"deliver with ack / publish, {place}",
            ratio(lambda one: one.deliver.bytes_per_s / one.publish.bytes_per_s),
            DELIVER_BAR,
        ),
    ]
    if few:
        written = ratio(lambda one: (one.publish.cost.written_bytes if one.publish.cost else 0) / load.payload_bytes)
        bars.append(Bar(f"bytes written / byte published, {place}", written, WRITTEN_BAR, Sense.AT_MOST))
    return bars
