"""Options of a write, parsed once in the driver. The options of a read are in ``read``.

All values can be pickled. Parsing does not call the broker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.checkpoint import CHECKPOINT_OPTIONS, CheckpointOptions, checkpoint_options
from forebay.spark.options.credentials import CREDENTIAL_OPTIONS, NO_CREDENTIALS, Credentials, credentials_of
from forebay.spark.options.values import OptionValues

ENDPOINT_VARIABLE: Final = "FOREBAY_ENDPOINT"
DEFAULT_ENDPOINT: Final = "127.0.0.1:7461"
CONNECT_TIMEOUT_S: Final = 10.0
STREAM_CONNECT_TIMEOUT_S: Final = 30.0
WRITE_NAME_MAX: Final = 91
"""Maximum length of a write name: a producer name of 128 characters without the query's id."""
_WRITE_NAME: Final = re.compile(rf"[A-Za-z0-9._:-]{{1,{WRITE_NAME_MAX}}}")


class Rows(StrEnum):
    """Stored form of a row."""

    AUTO = "auto"
    """``record`` if the columns are those of a record, else ``arrow``; for a read, the form in the sink."""

    RECORD = "record"
    """Columns ``value``, and optionally ``key``, ``headers``, ``partition``, ``event_time``."""

    JSON = "json"
    """One JSON object per row, with all columns."""

    ARROW = "arrow"
    """Rows in Arrow format, with a schema that is registered in the sink."""


class Compression(StrEnum):
    """Compression of pages of rows."""

    AUTO = "auto"
    """lz4, where it halves the size."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"


class InvalidUtf8(StrEnum):
    """Treatment of a string that is not UTF-8, in rows and in the names of headers."""

    FAIL = "fail"
    """The task fails with the row and the column."""

    REPLACE = "replace"
    """Invalid bytes are replaced by U+FFFD."""


AUTO: Final = "auto"
"""Value of ``arrow_dictionary`` that encodes all other columns with repeated values."""


class Delivery(StrEnum):
    """Delivery guarantee of a write."""

    EXACTLY_ONCE = "exactly_once"
    """Tasks stage their rows; the commit of the batch makes all of them visible atomically."""

    AT_LEAST_ONCE = "at_least_once"
    """Tasks write their rows; rows of a failed attempt stay, and are written again."""


class RepeatCheck(StrEnum):
    """Comparison of a repeated micro-batch with the committed one. Members are named as in the client."""

    RECORDS = "records"
    """Equal number of rows; a different digest is only logged."""

    CONTENT = "content"
    """Equal number and equal digest of the rows."""

    NONE = "none"
    """No comparison: the committed rows stay, and rows that only the repeat has are left out."""


@dataclass(frozen=True, slots=True)
class Target:
    """Sink and its brokers."""

    endpoints: tuple[str, ...]
    """``host:port`` of the brokers, at least one; or one `forebay://` with members of a fleet."""

    sink: str
    """Name of the sink."""

    connect_timeout_s: float
    """Time that the driver waits for an unavailable broker."""

    credentials: Credentials = NO_CREDENTIALS
    """TLS files and token."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Parsed options of a write."""

    target: Target
    """Sink to write to."""

    rows: Rows
    """Stored form of a row."""

    delivery_timeout_s: float
    """Time limit for the receipt of a page; then the task fails."""

    page_bytes: int
    """Body size at which a page is sent, 1 KiB to 1 MiB."""

    linger_ms: int
    """Time after which an incomplete page is sent, checked when rows arrive."""

    window_pages: int
    """Maximum number of pages per partition that await a receipt, 1 to 256."""

    create_sink: bool
    """Create the sink if it does not exist."""

    partitions: int | None
    """Number of partitions of a created sink; None uses the broker's default."""

    delivery: Delivery
    """Delivery guarantee."""

    write_name: str | None
    """Name under which the sink remembers the query; None uses the sink's name."""

    takeover: bool
    """Take over the name from another query."""

    epoch_from_query: bool
    """Write a batch inside ``foreachBatch`` once per micro-batch, even if the micro-batch is repeated."""

    epoch_check: RepeatCheck = RepeatCheck.RECORDS
    """Comparison of a repeated micro-batch with the committed one."""

    arrow_compression: Compression = Compression.AUTO
    """Compression of pages of rows."""

    partition_by: tuple[str, ...] = ()
    """Columns whose values select the partition of a row."""

    arrow_dictionary: tuple[str, ...] = ()
    """Columns that are dictionary-encoded in pages of rows; may include ``AUTO``."""

    invalid_utf8: InvalidUtf8 = InvalidUtf8.FAIL
    """Treatment of a string that is not UTF-8."""

    merge_schema: bool = True
    """Add new columns of the rows to the schema of the sink, instead of rejecting them."""

    type_widening: bool = False
    """Widen column types of the sink to those of the rows, instead of rejecting them."""

    case_sensitive: bool = False
    """Distinguish column names by case, as with ``spark.sql.caseSensitive``."""

    checkpoint: CheckpointOptions | None = None
    """Store that knows the query of this write, so that its successor may take over the name."""


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
    *CHECKPOINT_OPTIONS,
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
    *CHECKPOINT_OPTIONS,
)


def write_options(given: Mapping[str, str], environment: Mapping[str, str], *, is_stream: bool = False) -> WriteOptions:
    """Parse the options of a write. Raises `ForebaySparkError` for the first invalid one.

    A stream waits longer for its broker, because it may run for months and outlive restarts of the broker.
    """
    values = OptionValues(given, WRITE_OPTIONS, other=READ_OPTIONS, doing="write")
    create_sink = values.flag("create_sink", default=False)
    partitions = values.whole("partitions", 1, 1024, default=None)
    if partitions is not None and not create_sink:
        raise ForebaySparkError(
            "Option partitions is only for a sink that this write creates.",
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
        checkpoint=_checkpoint(values, is_stream=is_stream),
    )


def _row_format(values: OptionValues) -> Rows:
    """Parse the stored form of a row; ``rows`` is an alias of the option."""
    rows = values.choice("rows", Rows, default=Rows.AUTO)
    wanted = values.choice("row_format", Rows, default=rows)
    if rows is not Rows.AUTO and wanted is not rows:
        raise ForebaySparkError(
            f"Option row_format is {wanted.value!r} and its alias rows is {rows.value!r}.", "Set only row_format."
        )
    return wanted


def _columns(option: str, values: OptionValues) -> tuple[str, ...]:
    text = values.text(option)
    names = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    if len(set(names)) < len(names):
        raise ForebaySparkError(f"Option {option} is {text!r}.", "Name every column once, with commas between.")
    return names


def target_options(values: OptionValues, environment: Mapping[str, str], *, connect_timeout_s: float) -> Target:
    """Parse sink and brokers. Raises `ForebaySparkError`."""
    sink, path = values.text("sink"), values.text("path")
    if sink and path and sink != path:
        raise ForebaySparkError(
            f"Two sinks are named: {sink!r} by option sink, {path!r} as the path.",
            "Name the sink once.",
        )
    name = sink or path
    if name is None:
        raise ForebaySparkError(
            "Option sink is not set. Spark does not pass the options with which a table was made to a later SELECT or "
            "INSERT.",
            'Add .option("sink", "<name>"). For SQL use a view: CREATE TEMPORARY VIEW v USING forebay OPTIONS '
            "(endpoint 'host:port', sink '<name>'), then SELECT from it and INSERT INTO it; or name the sink in each "
            "statement: SELECT * FROM t WITH (endpoint='host:port', sink='<name>'). "
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
    """Parse ``host`` or ``host:port``, or several separated by commas. Raises `ForebaySparkError`.

    `forebay://host:port,...`, which names members of a fleet of shards, stays one endpoint.
    """
    # They import grpc, which no session without a query should load.
    from forebay.client.errors import InvalidArgument  # noqa: PLC0415
    from forebay.client.transport.endpoint import canonical  # noqa: PLC0415

    try:
        return canonical(text)
    except InvalidArgument as error:
        raise ForebaySparkError(
            f"The endpoint {text!r} must have the form host:port: {error}.",
            f'Set .option("endpoint", "host:7461") or the environment variable {ENDPOINT_VARIABLE}.',
        ) from error


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
            "Option epoch_from_query is for batches inside foreachBatch: a stream always uses the epochs of its query.",
            "Leave it out.",
        )
    if wanted and values.choice("delivery", Delivery, default=Delivery.EXACTLY_ONCE) is Delivery.AT_LEAST_ONCE:
        raise ForebaySparkError(
            "Option epoch_from_query requires delivery exactly_once.",
            "Leave out one of the options delivery and epoch_from_query.",
        )
    return wanted


def _checkpoint(values: OptionValues, *, is_stream: bool) -> CheckpointOptions | None:
    found = checkpoint_options(values, is_stream=is_stream)
    if found is not None and values.choice("delivery", Delivery, default=Delivery.EXACTLY_ONCE) is not (
        Delivery.EXACTLY_ONCE
    ):
        raise ForebaySparkError(
            "Option checkpoint_store of a write requires delivery exactly_once: other writes have no producer.",
            "Leave out one of the options delivery and checkpoint_store.",
        )
    return found
