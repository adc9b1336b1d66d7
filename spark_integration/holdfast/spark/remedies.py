"""What a user of Spark does about an error of the client: one table, so that every message ends with advice."""

from __future__ import annotations

from typing import Final

from holdfast.client import errors
from holdfast.spark.errors import HoldfastSparkError
from holdfast.spark.options import ENDPOINT_VARIABLE, Target

_ADVICE: Final[tuple[tuple[type[errors.HoldfastError], str], ...]] = (
    (
        errors.SinkNotFound,
        "Create it: holdfast sink create {sink} --endpoint {endpoint}; or let a write do it: "
        '.option("create_sink", "true").',
    ),
    (
        errors.InvalidName,
        "Name it with 1 to 123 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit.",
    ),
    (
        errors.BrokerUnavailable,
        "Start the broker (holdfast serve), or say where it is: "
        '.option("endpoint", "host:port") or the environment variable {variable}.',
    ),
    (
        errors.SinkFull,
        "See what waits with: holdfast lag {sink} --endpoint {endpoint}; then let its target catch up, raise the "
        "sink's limits, or raise the option delivery_timeout_s.",
    ),
    (errors.DiskFull, "Free room on the broker's disk; then run this again."),
    (errors.BrokerFull, "Let the targets of the broker's sinks catch up, or raise its max_broker_bytes."),
    (
        errors.DeliveryTimeout,
        "Ask the broker with: holdfast info --endpoint {endpoint}; raise the option delivery_timeout_s when it may be "
        "away or full for longer.",
    ),
    (errors.RecordTooLarge, "Split such rows, or raise the broker's bound for a record."),
    (errors.InvalidPartition, "Start the query again: the sink was made anew with fewer partitions."),
    (
        errors.OffsetTrimmed,
        'Read from what is left with .option("startingOffsets", "earliest"), or accept the loss with '
        '.option("failOnDataLoss", "false").',
    ),
    (
        errors.GapError,
        "See why with: holdfast sink show {sink} --endpoint {endpoint}; accept the loss with "
        '.option("failOnDataLoss", "false").',
    ),
    (
        errors.SubscriptionInUse,
        "End that consumer, or read as a subscription of its own: "
        '.option("subscription", "<name>"); holdfast subscription list {sink} shows those that there are.',
    ),
    (
        errors.TooManySubscriptions,
        "Delete one that nobody needs: holdfast subscription delete {sink} <name> --endpoint {endpoint}.",
    ),
    (errors.InvalidSubscriptionName, "Name it with 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'."),
    (errors.SinkReplaced, "Run this again: the sink was deleted and made anew meanwhile."),
    (errors.AccessDenied, "Check the credentials and what they are allowed to do."),
)
_OTHERWISE: Final = "See the broker's log, and holdfast info --endpoint {endpoint}."


def explained(error: errors.HoldfastError, target: Target, *, doing: str) -> HoldfastSparkError:
    """Return what to raise towards Spark for an error of the client met while ``doing`` something."""
    endpoint = ",".join(target.endpoints)
    advice = next((text for kind, text in _ADVICE if isinstance(error, kind)), _OTHERWISE)
    return HoldfastSparkError(
        f"Could not {doing} sink {target.sink!r} at {endpoint}: {type(error).__name__}: {error}",
        advice.format(sink=target.sink, endpoint=endpoint, variable=ENDPOINT_VARIABLE),
    )
