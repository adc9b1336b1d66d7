"""The source produces every row exactly once, at its pace or in a hurry, and stops when it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from forebay.cli.demo.source.producer import CHUNK_ROWS, produce_files, produce_live
from forebay.cli.demo.source.records import InputFolder


def told_after(calls: int) -> Callable[[float | None], bool]:
    """Return a wait that never waits, and says that it is over at the given call and after."""
    made = 0

    def wait(seconds: float | None) -> bool:
        nonlocal made
        made += 1
        return made >= calls

    return wait


def csv_of(rows: int, path: Path) -> Path:
    path.write_text("n\n" + "".join(f"{number}\n" for number in range(rows)))
    return path


def test_every_row_of_every_file_is_produced_once(tmp_path: Path) -> None:
    inputs = [csv_of(CHUNK_ROWS + 1, tmp_path / "a.csv"), csv_of(3, tmp_path / "b.csv")]
    folder = InputFolder(tmp_path / "in")
    folder.path.mkdir()
    told: list[int] = []

    produce_files(folder, inputs, duration_s=1, wait=told_after(1), report=told.append)

    ids = list(folder.produced_ids())
    assert len(ids) == len(set(ids)) == CHUNK_ROWS + 4
    assert told == [CHUNK_ROWS, CHUNK_ROWS + 3, CHUNK_ROWS + 4]


def test_the_rest_is_spread_over_the_duration_from_the_first_order_on(tmp_path: Path) -> None:
    folder = InputFolder(tmp_path / "in")
    folder.path.mkdir()
    asked: list[float | None] = []

    def wait(seconds: float | None) -> bool:
        asked.append(seconds)
        return False

    produce_files(folder, [csv_of(4 * CHUNK_ROWS, tmp_path / "a.csv")], duration_s=8, wait=wait, report=lambda _: None)

    assert asked[0] is None
    assert [round(seconds or 0) for seconds in asked[1:]] == [4, 6, 8]


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

    assert [json.loads(line) for line in ended.stdout.splitlines()] == [{"produced": 5}]


def test_a_file_that_cannot_be_read_ends_the_process_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{")
    command = [sys.executable, "-m", "forebay.cli.demo.source.producer", "--folder", str(tmp_path)]

    ended = subprocess.run(
        [*command, "--input", str(tmp_path / "a.jsonl")], input="", capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
