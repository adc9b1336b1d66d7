"""``make bench-spark``: what exactly once costs a Spark job, in one run, against writers and readers that do nothing.

One session, ``local[2]``, in a process of its own; the broker is another one, on the same processors, with its syncs.
Each figure has its counterpart in the same round: a write the writer that discards the same rows, a read the scan of a
Parquet file with the same rows. Beside the read stand one whose tasks yield rows that they have in memory, no source in
Python reads faster than that, and one to which a bare gRPC stream brings the same batches, no source that is another
process does; what is read from that is not compressed, so a row for such pages stands beside it. A stream's figure is
the time of one micro-batch, as Spark's progress has it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from tests.bench import echo, report
from tests.bench.processes import ROOT, broker, child
from tests.bench.spark_sources import discarding, from_memory, from_stream
from tests.bench.values import Bar, Row, Sample, row_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS: Final = (3_000_000, 300_000)
"""In full, and quickly."""
ROW_BYTES: Final = 230
TASKS: Final = 4
SINK_PARTITIONS: Final = 4
MEMORY_ROWS: Final = 5_000
"""Rows of a batch that is read from memory: about as many as a page has."""
BATCHES: Final = 3
"""Micro-batches of a stream: the first one of each is not counted."""
BARS: Final = {"Arrow rows": 0.45, "value rows": 0.35}
READ_BAR: Final = 0.6
BARE_BAR: Final = 0.7
DOWNLOAD: Final = f"/{echo.SERVICE}/Download"
TEXT: Final = "temperature=21.5;humidity=40;pressure=1013;state=ok;unit=metric;"


def columns(kind: str, number: str) -> list[str]:
    """Columns of about 230 bytes a row, cheap to make: that cost is in both figures of a pair."""
    if kind == "value rows":
        text = TEXT.ljust(ROW_BYTES - 16, ".")
        return [f"cast(concat(lpad(hex(xxhash64({number})), 16, '0'), '{text}') AS binary) AS value"]
    return [
        f"{number} AS id",
        f"timestamp_micros({number} * 1000) AS at",
        f"{number} % 1000 AS device",
        f"{number} / 7.0D AS reading",
        f"{number} % 3 = 0 AS ok",
        f"concat('station-', {number} % 500) AS station",
        f"concat(lpad(hex(xxhash64({number})), 16, '0'), '{TEXT.ljust(ROW_BYTES - 76, '.')}') AS note",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code: 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.exactly_once", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round: for a look")
    parser.add_argument("--rounds", type=int, default=0, help="rounds: 3, with --quick 1")
    parser.add_argument(
        "--child", nargs=5, metavar=("ENDPOINT", "BARE", "FOLDER", "ROWS", "ROUNDS"), help=argparse.SUPPRESS
    )
    chosen = parser.parse_args(arguments)
    if chosen.child:
        endpoint, bare, folder, rows, rounds = chosen.child
        Job(endpoint, bare, Path(folder), int(rows), int(rounds)).run()
        return 0
    begun = time.perf_counter()
    count = ROWS[1] if chosen.quick else ROWS[0]
    rounds = chosen.rounds or (1 if chosen.quick else 3)
    results = ROOT / "bench-results"
    results.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="data-", dir=results) as name:
        folder = Path(name)
        with (
            broker(folder / "store", folder / "broker.log") as (_, endpoint),
            echo.Echo(folder / "echo.log", tuned=True) as bare,
            child(
                "tests.bench.exactly_once", "--child", endpoint, bare.endpoint, str(folder), str(count), str(rounds),
                log=folder / "spark.log",
            ) as job,
        ):  # fmt: skip
            found = job.report()
    rows_, bars = _judged(found, count)
    return 0 if report.show(rows_, bars, elapsed_s=time.perf_counter() - begun) else 1


def _judged(found: dict[str, Any], count: int) -> tuple[list[Row], list[Bar]]:
    """The child's seconds as rows, and the bars that they are held against."""
    rows = [
        row_of(
            name, [Sample(one["rows"], one["rows"] * ROW_BYTES, one["s"]) for one in samples], record_bytes=ROW_BYTES
        )
        for name, samples in found.items()
    ]
    bars: list[Bar] = []

    def compare(name: str, ours: str, theirs: str, bar: float) -> None:
        pairs = zip(found[ours], found[theirs], strict=True)
        bars.append(Bar(name, median((o["rows"] / o["s"]) / (t["rows"] / t["s"]) for o, t in pairs), bar))

    for kind, bar in BARS.items():
        for way in ("batch", "stream"):
            name = f"{kind}, {way}, exactly once"
            compare(f"{name} / discarded", name, f"{kind}, {way}, discarded", bar)
    compare("Arrow rows, read / Parquet scan", "Arrow rows, read", "Arrow rows, Parquet scan", READ_BAR)
    plain = "Arrow rows, not compressed, batch, exactly once"
    compare(f"{plain} / discarded", plain, "Arrow rows, batch, discarded", BARS["Arrow rows"])
    plain, bare = "Arrow rows, not compressed, read", "Arrow rows, read, from a bare stream"
    compare(f"{plain} / from a bare stream", plain, bare, BARE_BAR)
    return rows, bars


@dataclass(frozen=True, slots=True)
class _Taken:
    """One thing done once."""

    rows: int
    seconds: float


class Job:
    """The child: warms every way up, then measures them in turns."""

    def __init__(self, endpoint: str, bare: str, folder: Path, count: int, rounds: int) -> None:
        from forebay.client import Client
        from forebay.spark.session import local_session

        self.endpoint = endpoint
        self.bare = bare
        self.folder = folder
        self.count = count
        self.rounds = rounds
        self.spark = local_session("forebay-bench-spark", conf={"spark.driver.memory": "3g"})
        self.spark.dataSource.register(discarding())
        self.spark.dataSource.register(from_memory(TASKS))
        self.spark.dataSource.register(from_stream(TASKS))
        self.client = Client(endpoint)
        self.found: dict[str, list[dict[str, float]]] = {}
        self._numbers = iter(range(1_000_000))

    def run(self) -> None:
        """Measure everything and print it as one line."""
        for round_ in range(self.rounds + 1):  # the first one warms up
            for kind in BARS:
                self._round(kind, counted=round_ > 0)
        self.client.close()
        self.spark.stop()
        print(json.dumps(self.found), flush=True)

    def _round(self, kind: str, *, counted: bool) -> None:
        def take(name: str, measure: Callable[[], _Taken]) -> None:
            taken = measure()
            if counted:
                self.found.setdefault(f"{kind}, {name}", []).append({"rows": taken.rows, "s": taken.seconds})

        frame = self.spark.range(self.count, numPartitions=TASKS).selectExpr(*columns(kind, "id"))
        sink = self._sink()
        take("batch, discarded", lambda: self._written(frame, "discarding", {}))
        take("batch, exactly once", lambda: self._written(frame, "forebay", self._options(sink)))
        self._expect(sink, self.count)
        if kind == "Arrow rows":
            path = str(self.folder / f"parquet-{next(self._numbers)}")
            take("to Parquet", lambda: self._written(frame, "parquet", {"path": path}))
            take("Parquet scan", lambda: self._read(self.spark.read.parquet(path)))
            some = self._some(frame)
            memory = self.spark.read.format("from-memory").options(**some)
            take("read, from memory", lambda: self._read(memory.load()))
            bare = self.spark.read.format("from-stream").options(**some, endpoint=self.bare, method=DOWNLOAD)
            take("read, from a bare stream", lambda: self._read(bare.load()))
            reading = self.spark.read.format("forebay")
            take("read", lambda: self._read(reading.options(**self._options(sink)).load()))
            plain = self._sink()
            options = {**self._options(plain), "arrow_compression": "none"}
            take("not compressed, batch, exactly once", lambda: self._written(frame, "forebay", options))
            take("not compressed, read", lambda: self._read(reading.options(**self._options(plain)).load()))
            self.client.sinks.delete(plain, force=True)
        self.client.sinks.delete(sink, force=True)
        sink = self._sink()
        take("stream, discarded", lambda: self._streamed(kind, "discarding", {}))
        take("stream, exactly once", lambda: self._streamed(kind, "forebay", self._options(sink)))
        self.client.sinks.delete(sink, force=True)

    def _some(self, frame: DataFrame) -> dict[str, str]:
        """Options of a read of as many rows, by a source that has some of them in a file."""
        import pyarrow as pa

        path = self.folder / "some.arrow"
        some = frame.limit(MEMORY_ROWS).toArrow()
        some = some.cast(pa.schema([field.with_nullable(True) for field in some.schema])).combine_chunks()
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, some.schema) as writer:
            writer.write_table(some)
        types = ", ".join(f"{name} {kind}" for name, kind in frame.dtypes)
        return {"path": str(path), "types": types, "batches": str(self.count // TASKS // MEMORY_ROWS)}

    def _options(self, sink: str) -> dict[str, str]:
        return {"endpoint": self.endpoint, "sink": sink}

    def _sink(self) -> str:
        name = f"bench-{next(self._numbers)}"
        self.client.sinks.create(name, partitions=SINK_PARTITIONS, max_total_bytes=1 << 40)
        return name

    def _expect(self, sink: str, rows: int) -> None:
        found = self.client.sinks.stats(sink).records
        if found != rows:
            raise RuntimeError(f"{found} records are in the sink, {rows} were written")

    def _written(self, frame: DataFrame, target: str, options: dict[str, str]) -> _Taken:
        begun = time.perf_counter()
        frame.write.format(target).options(**options).mode("append").save()
        return _Taken(self.count, time.perf_counter() - begun)

    def _read(self, frame: DataFrame) -> _Taken:
        begun = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return _Taken(self.count, time.perf_counter() - begun)

    def _streamed(self, kind: str, target: str, options: dict[str, str]) -> _Taken:
        """The median micro-batch of a stream, the first one left out."""
        rows = self.count // BATCHES
        stream = (
            self.spark.readStream.format("rate-micro-batch")
            .options(rowsPerBatch=str(rows), numPartitions=str(TASKS))
            .load()
            .selectExpr(*columns(kind, "value"))
        )
        checkpoint = self.folder / f"checkpoint-{next(self._numbers)}"
        query = (
            stream.writeStream.format(target).options(**options).option("checkpointLocation", str(checkpoint)).start()
        )
        try:
            while len(done := [one for one in query.recentProgress if one["numInputRows"]]) < BATCHES + 1:
                if not query.isActive:
                    raise RuntimeError(f"the stream ended: {query.exception()}")
                query.awaitTermination(1)
        finally:
            query.stop()
        times = [one["durationMs"]["addBatch"] + one["durationMs"].get("commitBatch", 0) for one in done[1:]]
        return _Taken(rows, median(times) / 1_000)


if __name__ == "__main__":
    sys.exit(main())
