"""Command lines and files of the demo's processes, on the loopback interface.

The system chooses the ports at the first start; later starts use the same ports.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.cli.demo.processes.children import python_module

SINK: Final = "demo"
"""Name of the sink."""

ANY_PORT: Final = "127.0.0.1:0"


@dataclass(frozen=True, slots=True)
class Site:
    """Files and command lines of a run."""

    folder: Path
    """Existing folder of the run."""

    @property
    def store(self) -> Path:
        """Data directory of the broker."""
        return self.folder / "broker"

    @property
    def database(self) -> Path:
        """Database of the remote system."""
        return self.folder / "target.sqlite"

    @property
    def input_folder(self) -> Path:
        """Input folder of the writing process."""
        return self.folder / "input"

    @property
    def checkpoint(self) -> Path:
        """Checkpoint of Spark."""
        return self.folder / "checkpoint"

    def broker(self, listen: str = ANY_PORT) -> list[str]:
        """Return the command line of a broker that reports its ``endpoint``."""
        arguments = ("serve", "--data-dir", self.store, "--listen", listen, "-o", "json")
        return python_module("forebay.cli", *arguments)

    def target(self, listen: str = ANY_PORT) -> list[str]:
        """Return the command line of the remote system."""
        return python_module("forebay.deliver.receiver", "--db", self.database, "--listen", listen)

    def deliverer(self, endpoint: str, url: str) -> list[str]:
        """Return the command line of the deliverer."""
        arguments = ("--endpoint", endpoint, "-o", "json")
        return python_module("forebay.cli", "deliver", SINK, "--to", url, "-O", "envelope=true", *arguments)

    def job(self, endpoint: str) -> list[str]:
        """Return the command line of the Spark job."""
        places = ("--folder", self.input_folder, "--checkpoint", self.checkpoint)
        return python_module("forebay.cli.demo.job", *places, "--endpoint", endpoint, "--sink", SINK)

    def writer(self, endpoint: str) -> list[str]:
        """Return the command line of the publisher that takes the place of the Spark job."""
        return python_module(
            "forebay.cli.demo.writer", "--folder", self.input_folder, "--endpoint", endpoint, "--sink", SINK
        )

    def source(self, inputs: Sequence[Path], duration_s: float) -> list[str]:
        """Return the command line of the source."""
        named = [word for path in inputs for word in ("--input", str(path.resolve()))]
        return python_module(
            "forebay.cli.demo.source.producer", "--folder", self.input_folder, "--duration-s", duration_s, *named
        )


def spark_environment(folder: Path) -> Mapping[str, str]:
    """Return the environment of Spark: scratch files in the run's folder, workers with this interpreter."""
    return {
        "SPARK_LOCAL_DIRS": str(folder / "spark"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
