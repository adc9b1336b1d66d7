"""Remedies for errors of the client: one table, so that every message ends with a remedy."""

from __future__ import annotations

from typing import Final

from forebay.client import errors
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.credentials import TOKEN_VARIABLE
from forebay.spark.options.write import ENDPOINT_VARIABLE, Target

_ADVICE: Final[tuple[tuple[type[errors.ForebayError], str], ...]] = (
    (
        errors.SinkNotFound,
        "Create it: forebay sink create {sink} --endpoint {endpoint}; or let a write do it: "
        '.option("create_sink", "true").',
    ),
    (
        errors.InvalidName,
        "Name it with 1 to 123 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit.",
    ),
    (
        errors.BrokerUnavailable,
        "Start the broker (forebay serve), or say where it is: "
        '.option("endpoint", "host:port") or the environment variable {variable}.',
    ),
    (
        errors.SinkFull,
        "See what waits with: forebay lag {sink} --endpoint {endpoint}; then let its target catch up, raise the "
        "sink's limits (exactly once, a whole batch has to fit), or raise the option delivery_timeout_s.",
    ),
    (
        errors.SchemaNotFound,
        "The sink was made anew meanwhile, or its store was damaged: run this again, or read from a later offset on.",
    ),
    (errors.InvalidSchema, "Write fewer columns, or to another sink: its schemas together have reached their bound."),
    (errors.DiskFull, "Free room on the broker's disk; then run this again."),
    (errors.BrokerFull, "Let the targets of the broker's sinks catch up, or raise its max_broker_bytes."),
    (
        errors.DeliveryTimeout,
        "Ask the broker with: forebay info --endpoint {endpoint}; raise the option delivery_timeout_s when it may be "
        "away or full for longer.",
    ),
    (
        errors.ProducerChanged,
        "If this query lost its checkpoint, start it with the old one; or let it take the name over, once, with "
        '.option("takeover", "true"): rows that were written before may then be written again. If it is another query, '
        'give it a name of its own: .option("write_name", "<name>").',
    ),
    (
        errors.EpochFenced,
        "Let only the newest run of this query go on. If this is the newest, its checkpoint is behind what was "
        "written: start it with the checkpoint that went on, or write under another name with "
        '.option("write_name", "<name>"), which writes again what the checkpoint has forgotten.',
    ),
    (
        errors.EpochConflict,
        "Give each write of a micro-batch to this sink a name of its own: "
        '.option("write_name", "<name>"). Nothing of this write became visible.',
    ),
    (
        errors.EpochContentConflict,
        "The sink keeps the rows of the first run. Two writes of a micro-batch under one name: give each a name of its "
        'own, .option("write_name", "<name>"). A driver that lost the last entries of its checkpoint: restore them, or '
        "write under another name, which writes this batch whole, and what the sink has of it twice. Rows that differ "
        'with each run (a table that changes, a sample): .option("epoch_check", "none") for one start keeps what the '
        "sink has and leaves out what only this run has.",
    ),
    (
        errors.StagingUnsupported,
        'Write with .option("delivery", "at_least_once"), or to a sink whose buffer_mode is DISK or SPILL.',
    ),
    (
        errors.StagedIncomplete,
        "Run this again; nothing of it became visible. Staged rows were thrown away before the commit: by a newer "
        "run, or by the sink's staging_ttl.",
    ),
    (errors.WriterFenced, "Run this again; another attempt or run has taken over."),
    (errors.RecordTooLarge, "Split such rows, or raise the broker's bound for a record."),
    (errors.InvalidPartition, "Start the query again: the sink was made anew with fewer partitions."),
    (
        errors.OffsetTrimmed,
        'Read from what is left with .option("startingOffsets", "earliest"), or accept the loss with '
        '.option("failOnDataLoss", "false").',
    ),
    (
        errors.GapError,
        "See why with: forebay sink show {sink} --endpoint {endpoint}; accept the loss with "
        '.option("failOnDataLoss", "false").',
    ),
    (
        errors.SubscriptionInUse,
        "End that consumer, or read as a subscription of its own: "
        '.option("subscription", "<name>"); forebay subscription list {sink} shows those that there are.',
    ),
    (
        errors.TooManySubscriptions,
        "Delete one that nobody needs: forebay subscription delete {sink} <name> --endpoint {endpoint}.",
    ),
    (
        errors.OrderingStrict,
        "Let what failed step aside: forebay sink update {sink} -s ordering=RELAXED --endpoint {endpoint}; or read "
        "the sink without mode resend.",
    ),
    (
        errors.SubscriptionNotFound,
        "Name one that there is: forebay subscription list {sink} --endpoint {endpoint} shows them.",
    ),
    (errors.InvalidSubscriptionName, "Name it with 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'."),
    (
        errors.SinkReplaced,
        "Run this again. A write, or a query that is started again, goes into the sink that is there now, with its "
        "schema, and nothing of what failed is in it. A query that reads the sink has offsets of the former one: start "
        "it with a new checkpoint location.",
    ),
    (
        errors.Unauthenticated,
        "Give driver and executors a token that the broker knows: by the environment variable {token}, set for both "
        "before Spark starts (executors: spark.executorEnv.{token} or a secret of the cluster), or by a file that the "
        "option token_file names.",
    ),
    (
        errors.HandshakeFailed,
        "Set the options tls_ca_file, tls_cert_file, tls_key_file and tls_server_name as the broker wants them, or "
        "none of them; forebay.spark.session.cluster_options gives the files to every host.",
    ),
    (
        errors.CredentialsUnusable,
        "Give files to driver and executors with forebay.spark.session.cluster_options or --files, or name an "
        "absolute path that every host has; set environment variables for both before Spark starts "
        "(spark.executorEnv.{token}).",
    ),
    (errors.InvalidArgument, "Correct the rows or the option that the message names, and run this again."),
    (errors.AccessDenied, "Check the credentials and what they are allowed to do."),
)
_OTHERWISE: Final = "See the broker's log, and forebay info --endpoint {endpoint}."


def explained(error: errors.ForebayError, target: Target, *, doing: str) -> ForebaySparkError:
    """Return what to raise towards Spark for an error of the client met while ``doing`` something."""
    endpoint = ",".join(target.endpoints)
    kind = type(error)
    if isinstance(error, errors.DeliveryTimeout):
        # What the broker refused for so long says more than the time.
        kind = errors.BY_REASON.get(error.refusal, kind)
    advice = next((text for known, text in _ADVICE if issubclass(kind, known)), _OTHERWISE)
    return ForebaySparkError(
        f"Could not {doing} sink {target.sink!r} at {endpoint}: {type(error).__name__}: {error}",
        advice.format(
            sink=target.sink,
            endpoint=endpoint,
            variable=ENDPOINT_VARIABLE,
            token=target.credentials.token_env or TOKEN_VARIABLE,
        ),
    )
