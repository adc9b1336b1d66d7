"""A stream continues where it stopped: after a restart, a failure, and an outage of the broker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from forebay.client import Client
from forebay.client.testing import TestBroker
from tests.support.spark.buffered import values
from tests.support.spark.streaming import Input, stream


def test_a_stream_continues_from_its_checkpoint(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    for _ in range(2):
        input_files.add(50)
        rows = input_files.rows(spark)
        query = stream(rows, broker.endpoint, tmp_path).queryName("orders").trigger(availableNow=True).start()
        query.awaitTermination()

        assert values(broker.endpoint) == sorted(input_files.written)


def test_a_query_that_failed_in_a_batch_writes_it_again_after_its_restart(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    broken = tmp_path / "broken"
    broken.touch()

    def stumble(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        yield from batches
        if os.path.exists(str(broken)):
            raise RuntimeError("the source is broken")

    input_files.add(50)
    rows = input_files.rows(spark).mapInArrow(stumble, "value string")
    with pytest.raises(StreamingQueryException, match="the source is broken"):
        stream(rows, broker.endpoint, tmp_path).trigger(availableNow=True).start().awaitTermination()
    broken.unlink()
    stream(rows, broker.endpoint, tmp_path).trigger(availableNow=True).start().awaitTermination()

    assert values(broker.endpoint) == sorted(input_files.written)


def test_a_missing_sink_ends_the_query_with_the_command_that_makes_it(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    with broker.client() as client:
        client.sinks.delete("orders")
    input_files.add(1)
    query = stream(input_files.rows(spark), broker.endpoint, tmp_path).trigger(availableNow=True).start()

    with pytest.raises(StreamingQueryException, match="forebay sink create orders"):
        query.awaitTermination()


def test_a_query_waits_for_a_broker_that_is_killed_and_started_again(
    spark: SparkSession, tmp_path: Path, input_files: Input
) -> None:
    with Serving(tmp_path / "data") as serving, Client(serving.endpoint) as client:
        client.sinks.create("orders", partitions=2)
        query = stream(input_files.rows(spark), serving.endpoint, tmp_path).start()
        try:
            for _ in range(3):
                input_files.add(200)
                query.processAllAvailable()
                serving.kill()
                input_files.add(200)
                serving.start()
            query.processAllAvailable()
        finally:
            query.stop()
        found = values(serving.endpoint)

    assert found == sorted(input_files.written)


class Serving:
    """A real broker process on a folder, always on the port that it got first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.endpoint = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it and wait until it listens."""
        command = [sys.executable, "-m", "forebay.cli", "serve"]
        self._process = subprocess.Popen(
            [*command, "--data-dir", str(self._folder), "--listen", self.endpoint],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(r"listening on (\S+)", line):
                self.endpoint = found[1]
                return
        raise AssertionError(f"the broker ended with code {self._process.wait()} before it listened")

    def kill(self) -> None:
        """End it with -9."""
        process = self._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        self._process = None

    def __enter__(self) -> Serving:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()
