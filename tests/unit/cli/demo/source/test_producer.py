"""The source produces every row exactly once, at its pace or in a hurry, and stops on request."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from forebay.cli.demo.source.producer import CHUNK_ROWS, produce_files, produce_live
from forebay.cli.demo.source.records import InputFolder


class Parent:
    """Input that says something at given waits, and never makes the source wait. Its clock moves by the waits."""

    def __init__(self, *, ends_at: int = 1 << 30, steady_at: int = 1 << 30) -> None:
        self.lines = 0
        self.now = 0.0
        self.asked: list[float | None] = []
        self._ends_at = ends_at
        self._steady_at = steady_at

    def wait(self, seconds: float | None) -> bool:
        """Note the wait; return True from the one on at which the input ends."""
        self.asked.append(seconds)
        self.now += seconds or 0.0
        self.lines = 1 + (len(self.asked) >= self._steady_at)
        return len(self.asked) >= self._ends_at

    def clock(self) -> float:
        """Return the sum of the waits."""
        return self.now


def csv_of(rows: int, path: Path) -> Path:
    path.write_text("n\n" + "".join(f"{number}\n" for number in range(rows)))
    return path


def test_every_row_of_every_file_is_produced_once(tmp_path: Path) -> None:
    inputs = [csv_of(CHUNK_ROWS + 1, tmp_path / "a.csv"), csv_of(3, tmp_path / "b.csv")]
    folder = InputFolder(tmp_path / "in")
    folder.path.mkdir()
    told: list[int] = []

    produce_files(folder, inputs, duration_s=1, parent=Parent(ends_at=1), report=told.append)

    ids = list(folder.produced_ids())
    assert len(ids) == len(set(ids)) == told[-1] == CHUNK_ROWS + 4


def paced(folder: Path, paths: Sequence[Path], parent: Parent, *, duration_s: float) -> list[tuple[float, int]]:
    """Produce the rows of files; return the number after each step with its time."""
    folder.mkdir()
    steps: list[tuple[float, int]] = []
    produce_files(
        InputFolder(folder),
        paths,
        duration_s=duration_s,
        parent=parent,
        report=lambda produced: steps.append((parent.now, produced)),
        clock=parent.clock,
    )
    return steps


@pytest.mark.parametrize("rows", [3, 40, 5_000, 400 * CHUNK_ROWS // 4])
def test_a_file_of_any_size_lasts_to_the_end_in_small_steps(rows: int, tmp_path: Path) -> None:
    steps = paced(tmp_path / "in", [csv_of(rows, tmp_path / "a.csv")], Parent(steady_at=1), duration_s=20)

    ended_at, produced = steps[-1]
    assert ended_at == pytest.approx(20)
    assert produced == rows
    sizes = [after - before for (_, before), (_, after) in pairwise([(0.0, 0), *steps])]
    assert max(sizes) <= max(1, -(-rows // 80))
    gaps = [after - before for (before, _), (after, _) in pairwise(steps)]
    assert max(gaps) <= 20 / min(rows - 1, 79) + 0.001


def test_a_short_and_a_long_file_last_equally_long(tmp_path: Path) -> None:
    inputs = [csv_of(4_000, tmp_path / "long.csv"), csv_of(100, tmp_path / "short.csv")]
    folder = tmp_path / "in"

    paced(folder, inputs, Parent(steady_at=1), duration_s=10)

    files = [
        {json.loads(line)["source"] for line in path.read_text().splitlines()} for path in sorted(folder.glob("*.json"))
    ]
    last_tenth = set().union(*files[-len(files) // 10 :])
    assert last_tenth == {"long.csv", "short.csv"}


def test_rows_are_left_for_the_whole_duration_however_long_the_warm_up_was(tmp_path: Path) -> None:
    parent = Parent(steady_at=41)

    steps = paced(tmp_path / "in", [csv_of(800, tmp_path / "a.csv")], parent, duration_s=20)

    warm_up_s = sum(seconds or 0.0 for seconds in parent.asked[:41])
    assert warm_up_s > 5
    ended_at, produced = steps[-1]
    assert ended_at == pytest.approx(warm_up_s + 20)
    assert produced == 800


def told_after(calls: int) -> Callable[[float | None], bool]:
    """Return a wait that never waits, and says that it is over at the given call and after."""
    return Parent(ends_at=calls).wait


def test_live_readings_have_ids_of_their_own_until_it_is_over(tmp_path: Path) -> None:
    folder = InputFolder(tmp_path)
    told: list[int] = []

    produce_live(folder, interval_s=0, wait=told_after(3), report=told.append)

    ids = list(folder.produced_ids())
    assert len(ids) == len(set(ids)) == told[-1]
    assert len(told) == 3


def test_the_process_ends_with_its_input_and_says_how_much_it_produced(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    command = [sys.executable, "-m", "forebay.cli.demo.source.producer", "--folder", str(inbox)]

    ended = subprocess.run(
        [*command, "--input", str(csv_of(5, tmp_path / "a.csv"))],
        input="begin\n",
        capture_output=True,
        text=True,
        check=True,
    )

    assert [json.loads(line)["produced"] for line in ended.stdout.splitlines()] == [1, 2, 3, 4, 5]


def test_a_file_that_cannot_be_read_ends_the_process_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{")
    command = [sys.executable, "-m", "forebay.cli.demo.source.producer", "--folder", str(tmp_path)]

    ended = subprocess.run(
        [*command, "--input", str(tmp_path / "a.jsonl")], input="", capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
