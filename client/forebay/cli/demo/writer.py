"""Publishing process of the quickstart: writes the records of the input folder, without Spark.

    python -m forebay.cli.demo.writer --folder DIR --endpoint HOST:PORT --sink NAME

It reports on standard output, one JSON object per line. It ends when its standard input has ended and all files of
the folder are durable.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from forebay.cli.demo.processes.parent_input import ParentInput
from forebay.client import Client, Publisher

POLL_S: Final = 0.1
"""Interval between two reads of the folder."""


def write_new(folder: Path, publisher: Publisher, after: str) -> str:
    """Publish the files that follow the one named ``after``; returns the name of the last one."""
    for path in sorted(path for path in folder.glob("[0-9]*.json") if path.name > after):
        with path.open("rb") as lines:
            for line in lines:
                fields = json.loads(line)
                at = datetime.fromisoformat(fields["produced_at"])
                publisher.send(line.rstrip(b"\n"), key=str(fields["entity"]).encode(), event_time=at)
        after = path.name
    publisher.flush()
    return after


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process."""
    parser = argparse.ArgumentParser(prog="python -m forebay.cli.demo.writer", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--sink", required=True)
    options = parser.parse_args(argv)
    parent, last, batches = ParentInput(), "", 0
    with Client(options.endpoint) as client, client.publisher(options.sink) as publisher:
        print(json.dumps({"started": True}), flush=True)
        ended = False
        while not ended:
            ended = parent.wait(POLL_S)
            before, last = last, write_new(options.folder, publisher, last)
            if last != before:
                batches += 1
                print(json.dumps({"batches": batches}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
