"""Spark query that reads with saved positions, in a process of its own, for kills.

    python -m tests.support.campaigns.spark_reader '{"endpoint": …, "store": …, "folder": …}'

It appends a line with partition and offset of each record of a micro-batch to a file before the micro-batch ends: the
effect that survives a kill. It ends when its standard input does, and with ``to_the_end`` at the end of the sink.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame

from forebay.spark.session import local_session

SINK: Final = "orders"
NAME: Final = "billing"


@dataclass(frozen=True, slots=True)
class Work:
    """Parameters of the process."""

    endpoint: str
    store: str
    folder: str
    """For the checkpoint and the effects."""

    to_the_end: bool = False

    @property
    def checkpoint(self) -> Path:
        """Checkpoint folder of the query."""
        return Path(self.folder) / "checkpoint"

    @property
    def effects(self) -> Path:
        """File of the processed records."""
        return Path(self.folder) / "effects"

    def processed(self) -> list[tuple[int, int]]:
        """Return partition and offset of the processed records, in order; a line that was cut off is left out."""
        if not self.effects.exists():
            return []
        whole, _, _ = self.effects.read_text().rpartition("\n")
        pairs = (line.split() for line in whole.splitlines())
        return [(int(partition), int(offset)) for partition, offset in pairs]

    def encode(self) -> str:
        """Return the argument of the process."""
        return json.dumps(asdict(self))


def main(work: Work) -> None:
    """Read until the process is killed."""

    def process(rows: DataFrame, number: int) -> None:
        found = rows.select("partition", "offset").collect()
        with work.effects.open("a") as effects:
            effects.write("".join(f"{row.partition} {row.offset}\n" for row in found))

    options = {"endpoint": work.endpoint, "sink": SINK, "checkpoint_store": work.store, "checkpoint_name": NAME}
    spark = local_session("reader", conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
    rows = spark.readStream.format("forebay").options(**options).load()
    writing = rows.writeStream.foreachBatch(process).option("checkpointLocation", str(work.checkpoint))
    writing = writing.trigger(availableNow=True) if work.to_the_end else writing.trigger(processingTime="0 seconds")
    writing.start().awaitTermination()
    spark.stop()


def _end_with_input() -> None:
    while os.read(0, 1024):  # a lock of Python's own reader would be in the way of a clean end
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    main(Work(**json.loads(sys.argv[1])))
