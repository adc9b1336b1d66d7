"""Options of ``ForeachPublisher``: the options of a write that have an effect on it.

All values can be pickled. Parsing does not call the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.credentials import CREDENTIAL_OPTIONS
from forebay.spark.options.values import OptionValues
from forebay.spark.options.write import (
    READ_OPTIONS,
    WRITE_OPTIONS,
    Delivery,
    Target,
    write_options,
)

FOREACH_OPTIONS: Final = (
    "endpoint",
    "sink",
    *CREDENTIAL_OPTIONS,
    "create_sink",
    "partitions",
    "delivery",
    "delivery_timeout_s",
    "page_bytes",
    "linger_ms",
    "window_pages",
)
LINGER_MS: Final = 5
"""Default of ``linger_ms``, as for a publisher: rows of a real-time query do not wait for a second."""


@dataclass(frozen=True, slots=True)
class ForeachOptions:
    """Parsed options of ``ForeachPublisher``."""

    target: Target
    """Sink to publish to."""

    create_sink: bool
    """Create the sink if it does not exist."""

    partitions: int | None
    """Number of partitions of a created sink; None uses the broker's default."""

    delivery_timeout_s: float
    """Time limit for the broker to answer, and for a record to become durable; then the task fails."""

    page_bytes: int
    """Size at which a page is sent, 1 KiB to 1 MiB."""

    linger_ms: int
    """Time that an incomplete page waits for more records."""

    window_pages: int
    """Maximum number of pages per partition that await a receipt, 1 to 256."""


def foreach_options(given: Mapping[str, str], environment: Mapping[str, str]) -> ForeachOptions:
    """Parse the options.

    Raises `ForebaySparkError` for the first invalid one, and for one that has no effect.
    """
    values = OptionValues(given, WRITE_OPTIONS, other=READ_OPTIONS, doing="write")
    for name in WRITE_OPTIONS:
        if name not in FOREACH_OPTIONS and values.text(name) is not None:
            raise ForebaySparkError(
                f"Option {name} has no effect on ForeachPublisher.",
                f"Leave it out, or write the rows with format('forebay'). Use some of: {', '.join(FOREACH_OPTIONS)}.",
            )
    if values.choice("delivery", Delivery, default=Delivery.AT_LEAST_ONCE) is not Delivery.AT_LEAST_ONCE:
        raise ForebaySparkError(
            "ForeachPublisher publishes at least once: Spark reports no commits to foreach.",
            "Leave option delivery out; or write the rows with format('forebay'), from foreachBatch too.",
        )
    usual = write_options({**given, "delivery": Delivery.AT_LEAST_ONCE}, environment, is_stream=True)
    return ForeachOptions(
        target=usual.target,
        create_sink=usual.create_sink,
        partitions=usual.partitions,
        delivery_timeout_s=usual.delivery_timeout_s,
        page_bytes=usual.page_bytes,
        linger_ms=values.whole("linger_ms", 0, 60_000, default=LINGER_MS),
        window_pages=usual.window_pages,
    )
