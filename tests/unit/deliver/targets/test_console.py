"""The console target."""

from __future__ import annotations

import io
import json
import os

import pytest

from forebay.deliver import Batch, Delivered, TargetClosed, TargetContext
from forebay.deliver.targets.console import ConsoleTarget
from tests.support.targets.memory_source import records

BATCH = Batch("orders", "1f2e", 0, tuple(records(3)))


def test_records_are_printed_one_a_line() -> None:
    stream = io.BytesIO()
    target = ConsoleTarget(stream)

    target.open(TargetContext("orders", "default", 1))
    assert target.send(BATCH) == Delivered()
    target.close()

    assert [json.loads(line)["offset"] for line in stream.getvalue().splitlines()] == [0, 1, 2]


def test_a_pipe_without_a_reader_ends_the_deliverer() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as stream, pytest.raises(TargetClosed):
        ConsoleTarget(stream).send(BATCH)
