"""The file target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forebay.deliver import Batch, Delivered, InvalidOption, Retry, TargetContext
from forebay.deliver.targets.file import FileTarget
from tests.support.targets.memory_source import records

CONTEXT = TargetContext("orders", "default", 4)


def batch(count: int, *, partition: int = 0) -> Batch:
    """Return a batch that begins at offset 0."""
    return Batch("orders", "1f2e", partition, tuple(records(count)))


def test_each_partition_has_a_file_of_its_own(tmp_path: Path) -> None:
    target = FileTarget(tmp_path / "out.jsonl")
    target.open(CONTEXT)

    assert target.send(batch(2)) == Delivered()
    assert target.send(batch(3, partition=7)) == Delivered()
    target.close()

    lines = (tmp_path / "out-7.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["1f2e-7-0", "1f2e-7-1", "1f2e-7-2"]
    assert len((tmp_path / "out-0.jsonl").read_text().splitlines()) == 2


def test_a_repeated_batch_is_accepted_and_not_written_again(tmp_path: Path) -> None:
    for count in (2, 5):
        target = FileTarget(tmp_path / "out.jsonl")
        target.open(CONTEXT)
        assert target.send(batch(count)) == Delivered()
        target.close()

    lines = (tmp_path / "out-0.jsonl").read_text().splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [0, 1, 2, 3, 4]


def test_a_file_that_cannot_be_written_is_retried_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "out-0.jsonl").write_text("something else\n")
    target = FileTarget(tmp_path / "out.jsonl")
    target.open(CONTEXT)

    outcome = target.send(batch(1))
    target.close()

    assert isinstance(outcome, Retry)
    assert "move it away" in outcome.reason


def test_a_folder_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="does not exist"):
        FileTarget(tmp_path / "missing" / "out.jsonl").open(CONTEXT)
