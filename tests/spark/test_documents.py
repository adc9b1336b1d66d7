"""The Spark examples of the documents work, each with a broker of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQueryManager

from forebay.client import Ordering
from forebay.client.testing import TestBroker
from tests.support.spark.streaming import Input

ROOT: Final = Path(__file__).resolve().parents[2]
BLOCK: Final = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOT_RUN: Final = {
    "docs/how-to/spark-on-a-cluster.md:45": "needs two brokers with certificates; test_security.py runs the options",
    "docs/reference/spark-rows.md:22": "its second session does not end beside that of the tests; alone it runs",
}
"""Examples that this test cannot run, with the reason."""

ASK: Final = "def ask(number):\n    return b'answer'\n"
"""Function of an example: Spark pickles it by value, since it is in no module."""


def examples() -> Iterator[tuple[str, str]]:
    """Iterate over the Spark examples that are not run as blocks of their documents: place and text."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            if "spark" in block[1] or "writeStream" in block[1]:
                yield f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, block.start()) + 1}", block[1]


EXAMPLES: Final = dict(examples())


def test_an_example_that_is_not_run_exists_and_has_a_reason() -> None:
    assert set(NOT_RUN) <= set(EXAMPLES)
    assert all(NOT_RUN.values())


@pytest.mark.documents
@pytest.mark.parametrize("place", [place for place in EXAMPLES if place not in NOT_RUN])
def test_the_spark_example_of_a_document_runs(
    spark: SparkSession,
    broker: TestBroker,
    input_files: Input,
    tmp_path: Path,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example = re.sub(r"broker(?:-1)?:7461", broker.endpoint, EXAMPLES[place])
    example = re.sub(r'"/(?:data/)?checkpoints', f'"{tmp_path}/checkpoints', example)
    if "local_session(" in example:  # a program of its own, which ends its session
        subprocess.run([sys.executable, "-c", example], check=True, timeout=500)
        return
    monkeypatch.setenv("FOREBAY_ENDPOINT", broker.endpoint)
    with broker.client() as client:
        if "resend" in example:
            client.sinks.update("orders", ordering=Ordering.RELAXED)
        for name in ("readings", "large-orders", "answers"):
            client.sinks.create(name, partitions=2)
    input_files.add(5)
    rows = input_files.rows(spark)
    names: dict[str, Any] = {"__name__": "__main__", "spark": spark, "df": rows, "readings": rows}
    names |= {"stream": rows.selectExpr("value", "2000 as total", "7 as id")}
    names |= dict.fromkeys(("send", "repair"), lambda batch, batch_id: batch.count())
    exec(ASK, names)
    before = {query.id for query in spark.streams.active}
    listeners: list[StreamingQueryListener] = []
    add = StreamingQueryManager.addListener

    def add_and_note(manager: StreamingQueryManager, listener: StreamingQueryListener) -> None:
        listeners.append(listener)
        add(manager, listener)

    monkeypatch.setattr(StreamingQueryManager, "addListener", add_and_note)

    exec(example, names)

    for query in spark.streams.active:
        if query.id not in before:
            query.processAllAvailable()
            query.stop()
            assert query.exception() is None
    for listener in listeners:
        spark.streams.removeListener(listener)
