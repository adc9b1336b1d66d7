"""Remedies for errors of the client: every message that Spark shows ends with one.

The table has the remedies that differ from those of other callers; the others are the advice of the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from forebay.client import errors
from forebay.errors.reasons import Reason, reason_of
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.credentials import TOKEN_VARIABLE
from forebay.spark.options.write import ENDPOINT_VARIABLE, Target

_REMEDIES: Final[Mapping[Reason, str]] = {
    Reason.SINK_NOT_FOUND: (
        "Create it: forebay sink create {sink} --endpoint {endpoint}; or let a write create it at its start: "
        '.option("create_sink", "true"). If it was deleted during a write, run the write again.'
    ),
    Reason.INVALID_SINK_NAME: (
        "Name it with 1 to 123 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit."
    ),
    Reason.UNREACHABLE: (
        "Start the broker (forebay serve), or say where it is: "
        '.option("endpoint", "host:port") or the environment variable {variable}.'
    ),
    Reason.SINK_FULL: (
        "See the backlog with: forebay lag {sink} --endpoint {endpoint}; then let its target catch up, raise the "
        "sink's limits (exactly once, a whole batch has to fit), or raise the option delivery_timeout_s."
    ),
    Reason.SCHEMA_NOT_FOUND: (
        "The sink was recreated, or its store was damaged: run this again, or read from a later offset on."
    ),
    Reason.INVALID_SCHEMA: (
        "Write fewer columns, or shorter names. If all versions of the sink's schema together have reached the bound, "
        "write to another sink."
    ),
    Reason.DISK_FULL: "Free room on the broker's disk; then run this again.",
    Reason.JOURNAL_AWAY: "See that the journal of the broker's shard answers; then run this again.",
    Reason.JOURNAL_FULL: "Make room for the journal of the broker's shard; then run this again.",
    Reason.BROKER_FULL: "Let the targets of the broker's sinks catch up, or raise its max_broker_bytes.",
    Reason.DELIVERY_TIMEOUT: (
        "Ask the broker with: forebay info --endpoint {endpoint}; raise the option delivery_timeout_s when it may be "
        "away or full for longer."
    ),
    Reason.PRODUCER_CHANGED: (
        "If this query lost its checkpoint, start it with the old one; or let it take the name over, once, with "
        '.option("takeover", "true"): rows that were written before may then be written again. If it is another query, '
        'give it a name of its own: .option("write_name", "<name>").'
    ),
    Reason.EPOCH_AHEAD: (
        "To write the lost micro-batches again, delete the files from the named epoch on in the folders `commits` and "
        "`offsets` of the checkpoint, if the source still has their rows and the query keeps no state. To continue "
        'without them, start the query once with .option("takeover", "true").'
    ),
    Reason.EPOCH_FENCED: (
        "Continue only the newest run of this query. If this is the newest, its checkpoint is behind what was "
        "written: start it with the newer checkpoint, or write under another name with "
        '.option("write_name", "<name>"), which writes the rows again that the checkpoint does not have.'
    ),
    Reason.EPOCH_CONFLICT: (
        "Give each write of a micro-batch to this sink a name of its own: "
        '.option("write_name", "<name>"). Nothing of this write became visible.'
    ),
    Reason.EPOCH_CONTENT_CONFLICT: (
        "The sink keeps the rows of the first run. Two writes of a micro-batch under one name: give each a name of its "
        'own, .option("write_name", "<name>"). A driver that lost the last entries of its checkpoint: restore them, or '
        "write this whole batch under another name: rows that the sink has are then in it twice. Rows that differ with "
        'each run (a table that changes, a sample): .option("epoch_check", "none") for one start keeps the rows of the '
        "sink and drops those that only this run has."
    ),
    Reason.STAGING_UNSUPPORTED: (
        'Write with .option("delivery", "at_least_once"), or to a sink whose buffer_mode is DISK or SPILL.'
    ),
    Reason.STAGED_INCOMPLETE: (
        "Run this again; nothing of it became visible. Staged rows were discarded before the commit: by a newer "
        "run, or by the sink's staging_ttl."
    ),
    Reason.WRITER_FENCED: "Run this again; another attempt or run has taken over.",
    Reason.RECORD_TOO_LARGE: "Split such rows, or raise the broker's bound for a record.",
    Reason.INVALID_PARTITION: "Start the query again: the sink was recreated with fewer partitions.",
    Reason.OFFSET_TRIMMED: (
        'Read from what is left with .option("startingOffsets", "earliest"), or accept the loss with '
        '.option("failOnDataLoss", "false").'
    ),
    Reason.GAP: (
        "See the reason with: forebay sink show {sink} --endpoint {endpoint}; accept the loss with "
        '.option("failOnDataLoss", "false").'
    ),
    Reason.SUBSCRIPTION_IN_USE: (
        "End that consumer, or read as a subscription of its own: "
        '.option("subscription", "<name>"); forebay subscription list {sink} shows the existing ones.'
    ),
    Reason.TOO_MANY_SUBSCRIPTIONS: (
        "Delete an unused one: forebay subscription delete {sink} <name> --endpoint {endpoint}."
    ),
    Reason.ORDERING_STRICT: (
        "Redeliver failed records beside new ones: forebay sink update {sink} -s ordering=RELAXED --endpoint "
        "{endpoint}; or read the sink without mode resend."
    ),
    Reason.POSITION_FENCED: (
        "Stop this query: another one reads the sink under the same checkpoint_name since. Give each query a name of "
        'its own: .option("checkpoint_name", "<name>").'
    ),
    Reason.POSITION_UNUSABLE: (
        "The sink was recreated, or restored from a backup. Accept the start that the message names with "
        '.option("failOnDataLoss", "false"), or start under another checkpoint_name.'
    ),
    Reason.POSITION_STORE_UNAVAILABLE: (
        "Start the query again when the store of the option checkpoint_store answers. A query that has Spark's "
        "checkpoint can start without that option."
    ),
    Reason.SUBSCRIPTION_NOT_FOUND: (
        "Name an existing one: forebay subscription list {sink} --endpoint {endpoint} shows them."
    ),
    Reason.INVALID_SUBSCRIPTION_NAME: "Name it with 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'.",
    Reason.SINK_REPLACED: (
        "Run this again. A write, or a query that is started again, goes into the new sink, with its "
        "schema; no row of the failed write is in it. A query that reads the sink has offsets of the former one: start "
        "it with a new checkpoint location."
    ),
    Reason.TOKEN_REFUSED: (
        "Give driver and executors a token that the broker knows: by the environment variable {token}, set for both "
        "before Spark starts (executors: spark.executorEnv.{token} or a secret of the cluster), or by a file that the "
        "option token_file names."
    ),
    Reason.HANDSHAKE_FAILED: (
        "Set the options tls_ca_file, tls_cert_file, tls_key_file and tls_server_name as the broker wants them, or "
        "none of them; forebay.spark.session.cluster_options gives the files to every host."
    ),
    Reason.CREDENTIALS_UNUSABLE: (
        "Give files to driver and executors with forebay.spark.session.cluster_options or --files, or name an "
        "absolute path that every host has; set environment variables for both before Spark starts "
        "(spark.executorEnv.{token})."
    ),
    Reason.PERMISSION_DENIED: "Check the credentials and what they are allowed to do.",
}
_INVALID: Final = "Correct the rows or the option that the message names, and run this again."
_UNCLASSIFIED: Final = "See the broker's log, and forebay info --endpoint {endpoint}."


def explained(error: errors.ForebayError, target: Target, *, doing: str) -> ForebaySparkError:
    """Return the error to raise to Spark for an error of the client during the action ``doing``."""
    endpoint = ",".join(target.endpoints)
    reason = reason_of(error.reason)
    if isinstance(error, errors.DeliveryTimeout):
        # The reason of the rejections explains more than the time limit.
        reason = reason_of(error.refusal) or reason
    return ForebaySparkError(
        f"Could not {doing} sink {target.sink!r} at {endpoint}: {error.reason or type(error).__name__}: {error}",
        _remedy(reason, error).format(
            sink=target.sink,
            endpoint=endpoint,
            variable=ENDPOINT_VARIABLE,
            token=target.credentials.token_env or TOKEN_VARIABLE,
        ),
    )


def _remedy(reason: Reason | None, error: errors.ForebayError) -> str:
    """Return the template of a remedy."""
    if reason is None:
        return _UNCLASSIFIED
    return _REMEDIES.get(reason) or (_INVALID if isinstance(error, errors.InvalidArgument) else reason.advice)
