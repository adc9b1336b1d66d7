"""Process that produces the demo's input.

    python -m forebay.cli.demo.source.producer --folder DIR [--input PATH]... [--duration-s N] [--interval-s N]

Without inputs it produces live readings until its standard input ends. With inputs it produces the first rows at once,
waits for a line on standard input, and spreads the rest evenly over the duration. When its standard input has ended it
produces all remaining rows without delay. After each file it reports the number of records produced so far on standard
output, as a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Final

from forebay.cli.demo.processes.parent_input import ParentInput
from forebay.cli.demo.source import readings
from forebay.cli.demo.source.input import UnreadableInput, rows
from forebay.cli.demo.source.records import InputFolder, SourceRecord, number_rows, source_names

CHUNK_ROWS: Final = 2_000
"""Maximum number of rows per file in the input folder."""

Wait = Callable[[float | None], bool]
"""Signature of `ParentInput.wait`."""


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
    folder: InputFolder, paths: Sequence[Path], *, duration_s: float, wait: Wait, report: Callable[[int], None]
) -> None:
    """Publish all rows of ``paths`` over ``duration_s`` from the first order on, alternating files.

    Raises `UnreadableInput` before any file is published.
    """
    staged = list(stage_files(folder, paths, chunk_rows=CHUNK_ROWS))
    produced = 0
    ended = False
    started = 0.0
    for number, (path, count) in enumerate(staged, start=1):
        folder.publish(path)
        produced += count
        report(produced)
        if number == 1:
            ended = wait(None)
            started = time.monotonic()
        elif not ended:
            ended = wait(started + duration_s * number / len(staged) - time.monotonic())


def stage_files(folder: InputFolder, paths: Sequence[Path], *, chunk_rows: int) -> Iterator[tuple[Path, int]]:
    """Convert ``paths`` to staged files, alternating inputs; yield each file with its number of records."""
    now = datetime.now(UTC)
    chunked = [
        number_rows(rows(path), source=name, chunk_rows=chunk_rows, now=now)
        for path, name in zip(paths, source_names(paths), strict=True)
    ]
    for turn, chunks in enumerate(zip_longest(*chunked)):
        for index, chunk in enumerate(chunks):
            if chunk:
                yield folder.stage(chunk, f"{turn:06d}-{index}"), len(chunk)


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
            produce_files(folder, options.input, duration_s=options.duration_s, wait=ParentInput().wait, report=report)
        else:
            produce_live(folder, interval_s=options.interval_s, wait=ParentInput().wait, report=report)
    except UnreadableInput as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
