"""The options of ``format("holdfast")``: one table, read once, in the driver. Those of a read are in `read_options`.

Everything here is a value that can be pickled; nothing is asked of a broker yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from holdfast.spark.errors import HoldfastSparkError
from holdfast.spark.option_values import OptionValues

ENDPOINT_VARIABLE: Final = "HOLDFAST_ENDPOINT"
DEFAULT_ENDPOINT: Final = "127.0.0.1:7461"
CONNECT_TIMEOUT_S: Final = 10.0
STREAM_CONNECT_TIMEOUT_S: Final = 30.0


class Rows(StrEnum):
    """What a row becomes."""

    AUTO = "auto"
    """``record`` when the columns are those of a record, else ``json``."""

    RECORD = "record"
    """Columns ``value``, and optionally ``key``, ``headers``, ``partition``, ``event_time``."""

    JSON = "json"
    """One JSON object per row, of all its columns."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which sink of which broker."""

    endpoints: tuple[str, ...]
    """``host:port`` of the brokers; at least one."""

    sink: str
    """Name of the sink."""

    connect_timeout_s: float
    """How long the driver waits for a broker that does not answer."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How rows are written."""

    target: Target
    """Where they go."""

    rows: Rows
    """What a row becomes."""

    delivery_timeout_s: float
    """How long a page may wait for its receipt before the task fails."""

    page_bytes: int
    """Body size at which a page is sent, 1 KiB to 1 MiB."""

    linger_ms: int
    """A page that is not full is sent with the first rows that arrive this long after its own first rows."""

    window_pages: int
    """Most pages of a partition that wait for a receipt, 1 to 256."""

    create_sink: bool
    """Make the sink when it is missing."""

    partitions: int | None
    """Partitions of a sink that is made; None takes the broker's default."""


_TARGET: Final = ("endpoint", "sink", "connect_timeout_s")
WRITE_OPTIONS: Final = (
    *_TARGET,
    "rows",
    "delivery_timeout_s",
    "page_bytes",
    "linger_ms",
    "window_pages",
    "create_sink",
    "partitions",
)
READ_OPTIONS: Final = (
    *_TARGET,
    "columns",
    "metadata",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "subscription",
    "maxRecordsPerTrigger",
    "maxBytesPerTrigger",
    "max_records_per_split",
    "failOnDataLoss",
)


def write_options(given: Mapping[str, str], environment: Mapping[str, str], *, is_stream: bool = False) -> WriteOptions:
    """Read the options of a write. Raises `HoldfastSparkError` for the first one that is wrong.

    A stream looks longer for its broker, because it may have run for months when the broker is started again.
    """
    values = OptionValues(given, WRITE_OPTIONS, other=READ_OPTIONS, doing="write")
    create_sink = values.flag("create_sink", default=False)
    partitions = values.whole("partitions", 1, 1024, default=None)
    if partitions is not None and not create_sink:
        raise HoldfastSparkError(
            "Option partitions is only for a sink that this write makes.",
            'Add .option("create_sink", "true"), or leave partitions out.',
        )
    return WriteOptions(
        target=target_options(
            values, environment, connect_timeout_s=STREAM_CONNECT_TIMEOUT_S if is_stream else CONNECT_TIMEOUT_S
        ),
        rows=values.choice("rows", Rows, default=Rows.AUTO),
        delivery_timeout_s=values.seconds("delivery_timeout_s", 0.1, 86_400.0, default=120.0),
        page_bytes=values.whole("page_bytes", 1 << 10, 1 << 20, default=1 << 20),
        linger_ms=values.whole("linger_ms", 0, 60_000, default=1000),
        window_pages=values.whole("window_pages", 1, 256, default=96),
        create_sink=create_sink,
        partitions=partitions,
    )


def target_options(values: OptionValues, environment: Mapping[str, str], *, connect_timeout_s: float) -> Target:
    """Read which sink of which broker is meant. Raises `HoldfastSparkError`."""
    sink, path = values.text("sink"), values.text("path")
    if sink and path and sink != path:
        raise HoldfastSparkError(
            f"Two sinks are named: {sink!r} by option sink, {path!r} as the path.",
            "Name the sink once.",
        )
    name = sink or path
    if name is None:
        raise HoldfastSparkError(
            "No sink is named. (The options of a CREATE TABLE do not reach a later INSERT.)",
            'Add .option("sink", "<name>"); `holdfast sink list` shows the sinks that exist.',
        )
    text = values.text("endpoint") or environment.get(ENDPOINT_VARIABLE, "").strip() or DEFAULT_ENDPOINT
    endpoints = tuple(part.strip() for part in text.split(",") if part.strip())
    for endpoint in endpoints:
        _check_endpoint(endpoint)
    return Target(
        endpoints=endpoints,
        sink=name,
        connect_timeout_s=values.seconds("connect_timeout_s", 0.1, 3600.0, default=connect_timeout_s),
    )


def _check_endpoint(endpoint: str) -> None:
    host, colon, port = endpoint.rpartition(":")
    if not (host and colon and port.isdigit() and 0 < int(port) < 1 << 16) or "/" in endpoint:
        raise HoldfastSparkError(
            f"The endpoint {endpoint!r} is not of the form host:port.",
            f'Set .option("endpoint", "host:7461") or the environment variable {ENDPOINT_VARIABLE}.',
        )
