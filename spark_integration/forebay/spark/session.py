"""Spark sessions for Forebay: a local session, and the options of a cluster.

`local_session` is what the demo, the benchmarks and the tests run on. `cluster_options` gives the files of TLS to every
host of a cluster, and says by which options reads and writes find them and the token. `use_in_this_thread` is for
threads that write or start a query.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pyspark import SparkContext
from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.credentials import TOKEN_VARIABLE
from forebay.spark.options.write import endpoints_of
from forebay.spark.versions import HAS_UNIX_SOCKETS

_LOOPBACK: Final = "127.0.0.1"
_REDACTED: Final = "(?i)secret|password|token|access[.]?key|credential"
"""Spark's own default of ``spark.redaction.regex``."""
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
        "spark.python.unix.domain.socket.enabled": str(HAS_UNIX_SOCKETS).lower(),
        "spark.sql.shuffle.partitions": str(cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **conf,
    }
    builder = SparkSession.builder.appName(app).master(f"local[{cores}, {tries}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def cluster_options(
    spark: SparkSession,
    *,
    endpoints: Sequence[str],
    tls_ca: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    tls_server_name: str | None = None,
    token_env: str | None = None,
) -> dict[str, str]:
    """Return the options with which reads and writes of this session connect, with TLS and token.

        where = cluster_options(spark, endpoints=["broker:7461"], tls_ca=Path("ca.pem"))
        rows.writeStream.format("forebay").options(**where).option("sink", "orders")

    The files are on the driver's host; Spark gives them to every host that runs a task, in folders that the user who
    runs the job can read. Nothing that is returned is secret: the token is in the environment variable
    ``token_env`` (`FOREBAY_TOKEN`, where it is set) of driver and executors, which must be there before Spark starts.

    Raises `ForebaySparkError` for what is missing, for a variable that Spark's pages and event log would show, and for
    files or a token with a session of Spark Connect, which has no driver here that could check them.
    """
    if not endpoints:
        raise ForebaySparkError("No endpoint is named.", "Name at least one host:port.")
    options = {"endpoint": ",".join(endpoints_of(",".join(endpoints)))}
    files = {"tls_ca_file": tls_ca, "tls_cert_file": tls_cert, "tls_key_file": tls_key}
    given = {option: path for option, path in files.items() if path is not None}
    _check_files(given)
    if token_env is not None or os.environ.get(TOKEN_VARIABLE, "").strip():
        name = token_env or TOKEN_VARIABLE
        _check_token(spark, name)
        options["token_env"] = name
    for option, path in given.items():
        _context_of(spark).addFile(str(path.resolve()))
        options[option] = path.resolve().name
    if tls_server_name is not None:
        options["tls_server_name"] = tls_server_name
    return options


def use_in_this_thread(spark: SparkSession) -> None:
    """Make the session active in the calling thread, as required before it writes or starts a query.

        def start(sink):
            use_in_this_thread(spark)
            return rows.writeStream.format("forebay").option("sink", sink).start()

    Spark looks up the name of a Python data source in the thread's active session, and only the thread that made the
    session has one: elsewhere `save` and `start` fail with `DATA_SOURCE_NOT_FOUND`. A read knows its session.
    """
    jvm: Any = _context_of(spark)._jvm
    jvm.SparkSession.setActiveSession(spark._jsparkSession)


def _context_of(spark: SparkSession) -> SparkContext:
    try:
        return spark.sparkContext
    except PySparkAttributeError as error:
        raise ForebaySparkError(
            "A session of Spark Connect has no driver in this process.",
            "Name as options what every host has: files by absolute paths, the token by token_env or token_file. "
            "Its threads need nothing.",
        ) from error


def _check_files(given: Mapping[str, Path]) -> None:
    for option, path in given.items():
        if not path.is_file():
            raise ForebaySparkError(f"{option}: there is no file {path}.", "Name a file on the driver's host.")
    if len({path.resolve().name for path in given.values()}) < len(given):
        raise ForebaySparkError(
            "Two files have the same name: " + ", ".join(str(path) for path in given.values()) + ".",
            "Give each a name of its own: Spark puts them into one folder.",
        )


def _check_token(spark: SparkSession, name: str) -> None:
    context = _context_of(spark)
    jvm = context._jvm
    if jvm is None or not (jvm.java.lang.System.getenv(name) or "").strip():
        # Planners inherit the environment of Spark's own process, as it was when that began.
        raise ForebaySparkError(
            f"The environment variable {name} was not set in the driver when Spark started.",
            f"Set it before Spark starts, and for executors too: spark.executorEnv.{name} or a secret of the cluster.",
        )
    conf = context.getConf()
    key = f"spark.executorEnv.{name}"
    hidden = conf.get("spark.redaction.regex", _REDACTED)
    if conf.get(key) is not None and not re.search(hidden or _REDACTED, key):
        raise ForebaySparkError(
            f"Spark would show {key} on its pages and in its event log: spark.redaction.regex does not match it.",
            "Choose a name of the variable that contains 'token', or add its name to spark.redaction.regex.",
        )
