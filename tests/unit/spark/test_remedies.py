"""Errors shown by Spark end with a remedy."""

from __future__ import annotations

import pytest

from forebay.client import errors
from forebay.errors.reasons import Reason
from forebay.spark.options.write import write_options
from forebay.spark.remedies import explained

TARGET = write_options({"sink": "orders", "endpoint": "broker:1"}, {}).target


def advice(error: errors.ForebayError) -> str:
    return str(explained(error, TARGET, doing="write to")).splitlines()[-1]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason.PRODUCER_CHANGED, ['.option("takeover", "true")', '.option("write_name"', "old one"]),
        (Reason.EPOCH_AHEAD, ["`commits` and `offsets`", '.option("takeover", "true")']),
        (Reason.EPOCH_FENCED, ["newest run", "checkpoint is behind", '.option("write_name"']),
        (Reason.EPOCH_CONFLICT, ["name of its own"]),
        (
            Reason.EPOCH_CONTENT_CONFLICT,
            ["keeps the rows of the first run", '.option("write_name"', "checkpoint", '.option("epoch_check", "none")'],
        ),
        (Reason.STAGING_UNSUPPORTED, ['.option("delivery", "at_least_once")']),
        (Reason.STAGED_INCOMPLETE, ["Run this again", "staging_ttl"]),
        (Reason.WRITER_FENCED, ["Run this again"]),
        (Reason.TOKEN_REFUSED, ["FOREBAY_TOKEN", "spark.executorEnv", "token_file"]),
        (Reason.HANDSHAKE_FAILED, ["tls_ca_file", "tls_server_name", "cluster_options"]),
        (Reason.CREDENTIALS_UNUSABLE, ["cluster_options", "absolute path", "before Spark starts"]),
        (Reason.PERMISSION_DENIED, ["allowed"]),
        (Reason.INVALID_SCHEMA, ["fewer columns", "If all versions", "another sink"]),
        (Reason.TOO_MANY_SINKS, ["Delete a sink", "raise the limit"]),
    ],
)
def test_each_error_has_its_advice(reason: Reason, words: list[str]) -> None:
    assert [word for word in words if word not in advice(errors.ForebayError("text", reason=reason))] == []


def test_an_unclassified_error_names_where_to_look() -> None:
    assert "forebay info --endpoint broker:1" in advice(errors.BrokerFault("text"))
    assert "Correct the rows or the option" in advice(errors.InvalidArgument("text", reason=Reason.INVALID_RANGE))


def test_a_timeout_on_a_full_sink_is_about_the_sink() -> None:
    full = errors.DeliveryTimeout("not in time", facts={"refusal": "SINK_FULL"})

    assert "forebay lag orders" in advice(full)
    assert "whole batch has to fit" in advice(full)
    assert "raise the option delivery_timeout_s" in advice(errors.DeliveryTimeout("not in time"))


def test_the_first_line_says_what_could_not_be_done_and_why() -> None:
    text = str(explained(errors.SinkFull("it is full"), TARGET, doing="commit to"))

    assert text.splitlines()[0] == "Could not commit to sink 'orders' at broker:1: SINK_FULL: it is full"
