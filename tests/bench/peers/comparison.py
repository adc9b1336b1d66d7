"""Rounds, rows and bars of the comparison.

Both brokers are on one disk, and this process is the client of both. The two are measured in turn, row by row, each
while the other one is stopped; in every second round Kafka is first. A ratio is taken between the two measurements of
one round.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from forebay.client import Client
from tests.bench import disk, echo, latency
from tests.bench.callers import CALLERS
from tests.bench.peers.forebay import Forebay
from tests.bench.peers.kafka import Kafka
from tests.bench.peers.kafka_broker import kafka_broker
from tests.bench.peers.peer import Peer
from tests.bench.processes import broker
from tests.bench.small.ways import KEYED, PLAIN, RECORD_BYTES, REPLAY, RICH, SUBSCRIBE, WAYS
from tests.bench.values import Bar, Row, Sample, Sense, row_of

RECORDS: Final = (400_000, 100_000)
"""Of each way, in full, and quickly."""
SINGLES: Final = (1_000, 300)
"""Records one at a time in each round."""
TOGETHER: Final = (200, 40)
"""Records of each of many callers in each round."""
WARM_RECORDS: Final = 50_000
MANY: Final = f"{CALLERS} threads, one record at a time"
ONE: Final = "one record at a time"
BARS: Final = (
    (PLAIN, PLAIN, 1.0),
    (KEYED, PLAIN, 0.7),
    (RICH, PLAIN, 0.4),
    (SUBSCRIBE, SUBSCRIBE, 1.0),
    (REPLAY, SUBSCRIBE, 1.2),
    (MANY, MANY, 1.0),
)
"""A way of Forebay, the way of Kafka that it is compared with, and the least ratio of their records/s."""
OF_KAFKA: Final = {
    PLAIN: "produce() per record",
    KEYED: "produce() with key",
    RICH: "produce() with key, 2 headers, timestamp",
    SUBSCRIBE: "consumer record by record, commits",
    MANY: MANY,
}
SINGLES_BAR: Final = 1.0
REACHABLE_BAR: Final = 2.0


@dataclass(frozen=True, slots=True)
class Lone:
    """Percentiles of one record at a time, in one round."""

    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, taken: Sequence[float]) -> Lone:
        """Return the percentiles of the seconds of each record."""
        row = latency.row_of("", taken, None)
        assert row.p50_ms is not None
        assert row.p99_ms is not None
        return cls(row.p50_ms, row.p99_ms)


class Comparison:
    """All measurements, by way and system, a value per round."""

    def __init__(self, peers: Sequence[Peer]) -> None:
        self._peers = peers
        self.samples: dict[tuple[str, str], list[Sample]] = {}
        self.lone: dict[str, list[Lone]] = {}

    def warm(self) -> None:
        """Let every peer serve some records of each kind first."""
        for peer in self._alone(self._peers):
            peer.publish(RICH, WARM_RECORDS)
            peer.read(SUBSCRIBE, WARM_RECORDS)

    def measure(self, number: int, *, quick: bool) -> None:
        """Measure one round."""
        count = RECORDS[quick]
        for way in (PLAIN, KEYED, RICH):
            self._in_turn(number, way, lambda peer, way: peer.publish(way, count))
        for way in (SUBSCRIBE, REPLAY):
            self._in_turn(number, way, lambda peer, way: peer.read(way, count))
        self._in_turn(number, MANY, lambda peer, _: peer.together(CALLERS, TOGETHER[quick]))
        for peer in self._alone(self._order(number)):
            self.lone.setdefault(peer.name, []).append(Lone.of(peer.one_by_one(SINGLES[quick])))

    def _in_turn(self, number: int, way: str, measure: Callable[[Peer, str], Sample]) -> None:
        for peer in self._alone(self._order(number)):
            self.samples.setdefault((way, peer.name), []).append(measure(peer, way))

    def _alone(self, order: Sequence[Peer]) -> Iterator[Peer]:
        """Yield each peer while the processes of the others are stopped."""
        for peer in order:
            others = [other.pid for other in self._peers if other is not peer]
            for pid in others:
                os.kill(pid, signal.SIGSTOP)
            try:
                yield peer
            finally:
                for pid in others:
                    os.kill(pid, signal.SIGCONT)

    def _order(self, number: int) -> Sequence[Peer]:
        return self._peers[::-1] if number % 2 else self._peers


def measure(
    folder: Path, *, rounds: int, quick: bool, rows: list[Row], bars: list[Bar], say: Callable[[str], None]
) -> None:
    """Measure Forebay and Kafka in turn; the disk and an empty call beside them."""
    bare: list[float] = []
    with (
        broker(folder / "forebay", folder / "forebay.log") as (process, endpoint),
        Client(endpoint) as client,
        kafka_broker(folder / "kafka", folder / "kafka.log") as topics,
        echo.Echo(folder / "echo.log") as server,
    ):
        found = Comparison([Forebay(client, process), Kafka(topics)])
        say("warm-up")
        found.warm()
        for number in range(rounds):
            say(f"Forebay and Kafka, round {number + 1} of {rounds}")
            found.measure(number, quick=quick)
            synced = disk.small_syncs(folder, SINGLES[quick])
            echoed = echo.unary(server.endpoint, bytes(disk.SMALL_BYTES), SINGLES[quick])
            bare.append((median(synced) + median(echoed)) * 1e3)
    rows += _rows(found, bare)
    bars += _bars(found, bare)


def _rows(found: Comparison, bare: list[float]) -> list[Row]:
    partitions = {way.name: way.partitions for way in WAYS}
    rows = []
    for (way, peer), samples in found.samples.items():
        if (way, peer) == (REPLAY, Kafka.name):
            continue  # the same consumer once more
        name = way if peer == Forebay.name else OF_KAFKA[way]
        rows.append(row_of(f"{peer}: {name}", samples, record_bytes=RECORD_BYTES, partitions=partitions.get(way, 1)))
    for peer, lone in found.lone.items():
        rows.append(
            Row(
                f"{peer}: {ONE}",
                record_bytes=RECORD_BYTES,
                partitions=1,
                p50_ms=median(one.p50_ms for one in lone),
                p99_ms=median(one.p99_ms for one in lone),
                runs=len(lone),
            )
        )
    rows.append(Row("fdatasync + unary echo", record_bytes=RECORD_BYTES, p50_ms=median(bare), runs=len(bare)))
    return rows


def _bars(found: Comparison, bare: list[float]) -> list[Bar]:
    bars = []
    for way, of_kafka, least in BARS:
        pairs = zip(found.samples[way, Forebay.name], found.samples[of_kafka, Kafka.name], strict=True)
        ratio = median(ours.records_per_s / theirs.records_per_s for ours, theirs in pairs)
        bars.append(Bar(f"records/s, {way} / Kafka's {OF_KAFKA[of_kafka]}", ratio, least))
    ours, theirs = found.lone[Forebay.name], found.lone[Kafka.name]
    p50 = median(one.p50_ms / other.p50_ms for one, other in zip(ours, theirs, strict=True))
    p99 = median(one.p99_ms / other.p99_ms for one, other in zip(ours, theirs, strict=True))
    reachable = median(one.p50_ms / other for one, other in zip(ours, bare, strict=True))
    return [
        *bars,
        Bar(f"p50 of {ONE} / Kafka's", p50, SINGLES_BAR, Sense.AT_MOST),
        Bar(f"p99 of {ONE} / Kafka's", p99, SINGLES_BAR, Sense.AT_MOST),
        Bar(f"p50 of {ONE} / (fdatasync + unary echo)", reachable, REACHABLE_BAR, Sense.AT_MOST),
    ]
