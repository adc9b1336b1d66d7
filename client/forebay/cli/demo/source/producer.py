"""Process that produces the demo's input.

    python -m forebay.cli.demo.source.producer --folder DIR [--input PATH]... [--duration-s N] [--interval-s N]

Without inputs it produces live readings until its standard input ends. With inputs it produces the first rows at once,
waits for a line on standard input, continues at the pace of the duration, and at a second line spreads the rest evenly
over the duration, in steps of a quarter of a second or less. When its standard input has ended it produces all
remaining rows without delay. After each file it reports the number of records produced so far on standard output, as a
line of JSON.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Final, Protocol

from forebay.cli.demo.processes.parent_input import ParentInput
from forebay.cli.demo.source import readings
from forebay.cli.demo.source.input import UnreadableInput, rows
from forebay.cli.demo.source.records import InputFolder, SourceRecord, number_rows, source_names

CHUNK_ROWS: Final = 2_000
"""Maximum number of rows per file in the input folder."""

STEP_S: Final = 0.25
"""Longest time between two files of an input with enough rows."""

STEPS_MAX: Final = 400
"""Steps of an input whose rows fit into as many files."""

Wait = Callable[[float | None], bool]
"""Signature of `ParentInput.wait`."""


class Parent(Protocol):
    """Standard input of the process, as `ParentInput` reads it."""

    @property
    def lines(self) -> int:
        """Number of lines so far."""

    def wait(self, seconds: float | None) -> bool:
        """Wait for a line, or the end of the input; return True if it has ended."""


def produce_live(folder: InputFolder, *, interval_s: float, wait: Wait, report: Callable[[int], None]) -> None:
    """Write one file of readings per interval until ``wait`` returns True."""
    produced = 0
    tick = 0
    started = time.monotonic()
    ended = False
    while not ended:
        now = datetime.now(UTC)
        sample = [
            SourceRecord("live", produced + number, entity, now, data)
            for number, (entity, data) in enumerate(readings.sample())
        ]
        folder.publish(folder.stage(sample, f"live-{tick}"))
        produced += len(sample)
        tick += 1
        report(produced)
        ended = wait(started + tick * interval_s - time.monotonic())


def produce_files(
    folder: InputFolder,
    paths: Sequence[Path],
    *,
    duration_s: float,
    parent: Parent,
    report: Callable[[int], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Publish all rows of ``paths``, each file over the whole of ``duration_s`` from the second line on.

    Raises `UnreadableInput` before any file is published.
    """
    steps = min(STEPS_MAX, max(1, round(duration_s / STEP_S)))
    staged = list(stage_files(folder, paths, steps=steps))
    produced = 0
    end: float | None = None
    for number, (path, count) in enumerate(staged):
        if number == 1:
            parent.wait(None)
        if number:
            if end is None and parent.lines > 1:
                end = clock() + duration_s
            left_s = duration_s if end is None else end - clock()
            parent.wait(max(0.0, left_s) / (len(staged) - number))
        folder.publish(path)
        produced += count
        report(produced)


def stage_files(folder: InputFolder, paths: Sequence[Path], *, steps: int) -> Iterator[tuple[Path, int]]:
    """Convert ``paths`` to staged files, about ``steps`` of each; yield each with its number of records.

    The files of all inputs are mixed evenly, so that each lasts from the beginning to the end.
    """
    now = datetime.now(UTC)
    placed = [
        _placed(path, index, name, steps=steps, now=now)
        for index, (path, name) in enumerate(zip(paths, source_names(paths), strict=True))
    ]
    for number, (_, _, chunk) in enumerate(heapq.merge(*placed, key=lambda one: one[:2])):
        yield folder.stage(chunk, f"{number:06d}"), len(chunk)


def _placed(
    path: Path, index: int, name: str, *, steps: int, now: datetime
) -> Iterator[tuple[float, int, list[SourceRecord]]]:
    """Yield the chunks of an input, each with its place from 0 to 1. The rows are counted before."""
    total = sum(1 for _ in rows(path))
    chunk_rows = min(CHUNK_ROWS, max(1, ceil(total / steps)))
    chunks = ceil(total / chunk_rows)
    for number, chunk in enumerate(number_rows(rows(path), source=name, chunk_rows=chunk_rows, now=now)):
        yield (number + 0.5) / chunks, index, chunk


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process."""
    parser = argparse.ArgumentParser(prog="python -m forebay.cli.demo.source.producer", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--input", type=Path, action="append", default=[])
    parser.add_argument("--duration-s", type=float, default=30.0)
    parser.add_argument("--interval-s", type=float, default=0.25)
    options = parser.parse_args(argv)
    folder = InputFolder(options.folder)

    def report(produced: int) -> None:
        print(json.dumps({"produced": produced}), flush=True)

    try:
        if options.input:
            produce_files(folder, options.input, duration_s=options.duration_s, parent=ParentInput(), report=report)
        else:
            produce_live(folder, interval_s=options.interval_s, wait=ParentInput().wait, report=report)
    except UnreadableInput as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
