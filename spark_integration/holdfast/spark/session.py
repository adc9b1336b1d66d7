"""A Spark session on this machine that needs no configuration: what the demo, the benchmarks and the tests run on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import SparkSession

_LOOPBACK: Final = "127.0.0.1"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def local_session(app: str, *, cores: int = 2, tries: int = 1, conf: Mapping[str, str] = _NOTHING) -> SparkSession:
    """Start Spark in this process, on the loopback address, without a web page and without chatter.

    A task runs up to ``tries`` times before its job fails. What fails is raised, so Spark logs nothing about it.

    ``conf`` is added to the settings and wins over them. The Python workers run under this very interpreter:
    `PYSPARK_PYTHON` is set for that, because Spark otherwise takes the first ``python3`` on the path.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    settings = {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.log.level": "FATAL",
        # Over TCP each micro-batch waits 40 ms for a delayed acknowledgement of the worker's socket.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **conf,
    }
    builder = SparkSession.builder.appName(app).master(f"local[{cores}, {tries}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
