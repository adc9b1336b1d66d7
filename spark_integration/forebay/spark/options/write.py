"""The options of ``format("forebay")``: one table, read once, in the driver. Those of a read are in `read_options`.

Everything here is a value that can be pickled; nothing is asked of a broker yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.credentials import CREDENTIAL_OPTIONS, NO_CREDENTIALS, Credentials, credentials_of
from forebay.spark.options.values import OptionValues

ENDPOINT_VARIABLE: Final = "FOREBAY_ENDPOINT"
DEFAULT_ENDPOINT: Final = "127.0.0.1:7461"
CONNECT_TIMEOUT_S: Final = 10.0
STREAM_CONNECT_TIMEOUT_S: Final = 30.0
WRITE_NAME_MAX: Final = 91
"""With a query's id before it a producer's name has up to 128 characters."""
_WRITE_NAME: Final = re.compile(rf"[A-Za-z0-9._:-]{{1,{WRITE_NAME_MAX}}}")


class Rows(StrEnum):
    """What a row becomes."""

    AUTO = "auto"
    """``record`` when the columns are those of a record, else ``arrow``; of a read, what the sink holds."""

    RECORD = "record"
    """Columns ``value``, and optionally ``key``, ``headers``, ``partition``, ``event_time``."""

    JSON = "json"
    """One JSON object per row, of all its columns."""

    ARROW = "arrow"
    """Rows as they are, with a schema that the sink keeps."""


class Compression(StrEnum):
    """How pages of rows are compressed."""

    AUTO = "auto"
    """By lz4 where that halves them."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"


class InvalidUtf8(StrEnum):
    """What becomes of a string that is not UTF-8, in rows and in the names of headers."""

    FAIL = "fail"
    """The task fails, and names the row and the column."""

    REPLACE = "replace"
    """U+FFFD stands in place of the bytes that are not UTF-8."""


AUTO: Final = "auto"
"""Among the columns with a dictionary: every other one, in pages where its values repeat."""


class Delivery(StrEnum):
    """How often a row comes to be in the sink."""

    EXACTLY_ONCE = "exactly_once"
    """Tasks stage their rows; the commit of the batch makes all of them visible at once."""

    AT_LEAST_ONCE = "at_least_once"
    """Tasks write their rows; what an attempt wrote that failed stays, and is written again."""


class RepeatCheck(StrEnum):
    """Comparison of a micro-batch that is run again with what the sink has of it. Named as the client's."""

    RECORDS = "records"
    """Equal number of rows; other rows of the same number are told in the log."""

    CONTENT = "content"
    """Equal number and equal digest of the rows."""

    NONE = "none"
    """None: what the sink has stays, and what only the repeat has is left out."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which sink of which broker."""

    endpoints: tuple[str, ...]
    """``host:port`` of the brokers; at least one."""

    sink: str
    """Name of the sink."""

    connect_timeout_s: float
    """How long the driver waits for a broker that does not answer."""

    credentials: Credentials = NO_CREDENTIALS
    """Where TLS files and the token stand."""


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

    delivery: Delivery
    """How often a row comes to be in the sink."""

    write_name: str | None
    """What the sink remembers a query by; None stands for the sink's name."""

    takeover: bool
    """The name may have belonged to another query."""

    epoch_from_query: bool
    """A batch inside of ``foreachBatch`` is written once for each micro-batch, however often it is run."""

    epoch_check: RepeatCheck = RepeatCheck.RECORDS
    """Comparison of a micro-batch that is run again with what the sink has of it."""

    arrow_compression: Compression = Compression.AUTO
    """How pages of rows are compressed."""

    partition_by: tuple[str, ...] = ()
    """Columns whose values choose the partition of a row."""

    arrow_dictionary: tuple[str, ...] = ()
    """Columns each value of which stands in a page of rows once; ``AUTO`` may be among them."""

    invalid_utf8: InvalidUtf8 = InvalidUtf8.FAIL
    """What becomes of a string that is not UTF-8."""

    merge_schema: bool = True
    """New columns of the rows are added to the schema of the sink, instead of being refused."""

    type_widening: bool = False
    """Columns of the sink take a wider type that the rows have, instead of refusing them."""

    case_sensitive: bool = False
    """Names of columns that differ in their case are different, as with ``spark.sql.caseSensitive``."""


_TARGET: Final = ("endpoint", "sink", "connect_timeout_s", *CREDENTIAL_OPTIONS)
WRITE_OPTIONS: Final = (
    *_TARGET,
    "row_format",
    "rows",
    "arrow_compression",
    "arrow_dictionary",
    "partition_by",
    "invalid_utf8",
    "mergeSchema",
    "type_widening",
    "case_sensitive",
    "delivery_timeout_s",
    "page_bytes",
    "linger_ms",
    "window_pages",
    "create_sink",
    "partitions",
    "delivery",
    "write_name",
    "takeover",
    "epoch_from_query",
    "epoch_check",
)
READ_OPTIONS: Final = (
    *_TARGET,
    "row_format",
    "columns",
    "metadata",
    "startingOffsets",
    "startingTimestamp",
    "timestamps",
    "endingOffsets",
    "endingTimestamp",
    "subscription",
    "maxRecordsPerTrigger",
    "maxBytesPerTrigger",
    "max_records_per_split",
    "failOnDataLoss",
    "mode",
    "resend_lease_s",
    "resend_before_due",
)


def write_options(given: Mapping[str, str], environment: Mapping[str, str], *, is_stream: bool = False) -> WriteOptions:
    """Read the options of a write. Raises `ForebaySparkError` for the first one that is wrong.

    A stream looks longer for its broker, because it may have run for months when the broker is started again.
    """
    values = OptionValues(given, WRITE_OPTIONS, other=READ_OPTIONS, doing="write")
    create_sink = values.flag("create_sink", default=False)
    partitions = values.whole("partitions", 1, 1024, default=None)
    if partitions is not None and not create_sink:
        raise ForebaySparkError(
            "Option partitions is only for a sink that this write makes.",
            'Add .option("create_sink", "true"), or leave partitions out.',
        )
    return WriteOptions(
        target=target_options(
            values, environment, connect_timeout_s=STREAM_CONNECT_TIMEOUT_S if is_stream else CONNECT_TIMEOUT_S
        ),
        rows=_row_format(values),
        delivery_timeout_s=values.seconds("delivery_timeout_s", 0.1, 86_400.0, default=120.0),
        page_bytes=values.whole("page_bytes", 1 << 10, 1 << 20, default=1 << 20),
        linger_ms=values.whole("linger_ms", 0, 60_000, default=1000),
        window_pages=values.whole("window_pages", 1, 256, default=96),
        create_sink=create_sink,
        partitions=partitions,
        delivery=values.choice("delivery", Delivery, default=Delivery.EXACTLY_ONCE),
        write_name=_write_name(values, is_stream=is_stream),
        takeover=values.flag("takeover", default=False),
        epoch_from_query=_epoch_from_query(values, is_stream=is_stream),
        epoch_check=values.choice("epoch_check", RepeatCheck, default=RepeatCheck.RECORDS),
        arrow_compression=values.choice("arrow_compression", Compression, default=Compression.AUTO),
        partition_by=_columns("partition_by", values),
        arrow_dictionary=_columns("arrow_dictionary", values),
        invalid_utf8=values.choice("invalid_utf8", InvalidUtf8, default=InvalidUtf8.FAIL),
        merge_schema=values.flag("mergeSchema", default=True),
        type_widening=values.flag("type_widening", default=False),
        case_sensitive=values.flag("case_sensitive", default=False),
    )


def _row_format(values: OptionValues) -> Rows:
    """Read what a row becomes; ``rows`` is what the option was called first."""
    rows = values.choice("rows", Rows, default=Rows.AUTO)
    wanted = values.choice("row_format", Rows, default=rows)
    if rows is not Rows.AUTO and wanted is not rows:
        raise ForebaySparkError(
            f"Option row_format is {wanted.value!r} and its older name rows is {rows.value!r}.", "Set only row_format."
        )
    return wanted


def _columns(option: str, values: OptionValues) -> tuple[str, ...]:
    text = values.text(option)
    names = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    if len(set(names)) < len(names):
        raise ForebaySparkError(f"Option {option} is {text!r}.", "Name every column once, with commas between.")
    return names


def target_options(values: OptionValues, environment: Mapping[str, str], *, connect_timeout_s: float) -> Target:
    """Read which sink of which broker is meant. Raises `ForebaySparkError`."""
    sink, path = values.text("sink"), values.text("path")
    if sink and path and sink != path:
        raise ForebaySparkError(
            f"Two sinks are named: {sink!r} by option sink, {path!r} as the path.",
            "Name the sink once.",
        )
    name = sink or path
    if name is None:
        raise ForebaySparkError(
            "No sink is named. Spark passes the options of a CREATE TABLE to no later SELECT or INSERT.",
            'Add .option("sink", "<name>"). For SQL use a view: CREATE TEMPORARY VIEW v USING forebay OPTIONS '
            "(endpoint 'host:port', sink '<name>'), then SELECT from it and INSERT INTO it. "
            "`forebay sink list` shows the sinks that exist.",
        )
    text = values.text("endpoint") or environment.get(ENDPOINT_VARIABLE, "").strip() or DEFAULT_ENDPOINT
    return Target(
        endpoints=endpoints_of(text),
        sink=name,
        connect_timeout_s=values.seconds("connect_timeout_s", 0.1, 3600.0, default=connect_timeout_s),
        credentials=credentials_of(values, environment),
    )


def endpoints_of(text: str) -> tuple[str, ...]:
    """Read ``host:port``, or several with commas between them. Raises `ForebaySparkError`."""
    endpoints = tuple(part.strip() for part in text.split(",") if part.strip())
    for endpoint in endpoints:
        _check_endpoint(endpoint)
    return endpoints


def _write_name(values: OptionValues, *, is_stream: bool) -> str | None:
    name = values.text("write_name")
    if name is None:
        return None
    if not is_stream and not values.flag("epoch_from_query", default=False):
        raise ForebaySparkError(
            "Option write_name is for streams: a batch has an id of its own.",
            'Leave it out, or inside of foreachBatch add .option("epoch_from_query", "true").',
        )
    if not _WRITE_NAME.fullmatch(name):
        raise ForebaySparkError(
            f"Option write_name is {name!r}.",
            f"Set it to 1 to {WRITE_NAME_MAX} letters, digits, '.', '_', ':' and '-'.",
        )
    return name


def _epoch_from_query(values: OptionValues, *, is_stream: bool) -> bool:
    wanted = values.flag("epoch_from_query", default=False)
    if wanted and is_stream:
        raise ForebaySparkError(
            "Option epoch_from_query is for batches inside of foreachBatch: a stream always writes its query's epochs.",
            "Leave it out.",
        )
    if wanted and values.choice("delivery", Delivery, default=Delivery.EXACTLY_ONCE) is Delivery.AT_LEAST_ONCE:
        raise ForebaySparkError(
            "Option epoch_from_query needs exactly once.",
            "Leave out one of the options delivery and epoch_from_query.",
        )
    return wanted


def _check_endpoint(endpoint: str) -> None:
    host, colon, port = endpoint.rpartition(":")
    if not (host and colon and port.isdigit() and 0 < int(port) < 1 << 16) or "/" in endpoint:
        raise ForebaySparkError(
            f"The endpoint {endpoint!r} is not of the form host:port.",
            f'Set .option("endpoint", "host:7461") or the environment variable {ENDPOINT_VARIABLE}.',
        )
