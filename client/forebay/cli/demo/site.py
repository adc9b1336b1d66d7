"""How each process of the demo is started. Addresses are on the loopback interface, files in the run's
folder.

Ports are chosen by the system at the first start and kept for every later one: what comes back comes back
in its place.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.cli.demo.processes import python_module

SINK: Final = "demo"
"""Name of the sink."""

ANY_PORT: Final = "127.0.0.1:0"


@dataclass(frozen=True, slots=True)
class Site:
    """Where everything is."""

    folder: Path
    """The run's folder; exists."""

    @property
    def store(self) -> Path:
        """The broker's data."""
        return self.folder / "broker"

    @property
    def database(self) -> Path:
        """The remote system's database."""
        return self.folder / "target.sqlite"

    @property
    def inbox(self) -> Path:
        """Where Spark finds its input."""
        return self.folder / "input"

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint."""
        return self.folder / "checkpoint"

    def broker(self, listen: str = ANY_PORT) -> list[str]:
        """A broker that says its ``endpoint``."""
        arguments = ("serve", "--data-dir", self.store, "--listen", listen, "-o", "json")
        return python_module("forebay.cli", *arguments)

    def target(self, listen: str = ANY_PORT) -> list[str]:
        """The remote system."""
        return python_module("forebay.deliver.receiver", "--db", self.database, "--listen", listen)

    def deliverer(self, endpoint: str, url: str) -> list[str]:
        """What brings the records to the remote system."""
        arguments = ("--endpoint", endpoint, "-o", "json")
        return python_module("forebay.cli", "deliver", SINK, "--to", url, "-O", "envelope=true", *arguments)

    def job(self, endpoint: str) -> list[str]:
        """The Spark job."""
        places = ("--folder", self.inbox, "--checkpoint", self.checkpoint)
        return python_module("forebay.cli.demo.job", *places, "--endpoint", endpoint, "--sink", SINK)

    def source(self, inputs: Sequence[Path], duration_s: float) -> list[str]:
        """What produces the input."""
        named = [word for path in inputs for word in ("--input", str(path.resolve()))]
        return python_module("forebay.cli.demo.source", "--folder", self.inbox, "--duration-s", duration_s, *named)


def spark_environment(folder: Path) -> Mapping[str, str]:
    """Spark's scratch files go to the run's folder, and its workers run the interpreter that runs this."""
    return {
        "SPARK_LOCAL_DIRS": str(folder / "spark"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
