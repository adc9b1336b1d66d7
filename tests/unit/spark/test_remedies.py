"""What Spark shows of an error ends with what to do about it."""

from __future__ import annotations

import pytest

from forebay.client import errors
from forebay.spark.options.write import write_options
from forebay.spark.remedies import explained

TARGET = write_options({"sink": "orders", "endpoint": "broker:1"}, {}).target


def advice(error: errors.ForebayError) -> str:
    return str(explained(error, TARGET, doing="write to")).splitlines()[-1]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (errors.ProducerChanged, ['.option("takeover", "true")', '.option("write_name"', "old one"]),
        (errors.EpochFenced, ["newest run", "checkpoint is behind", '.option("write_name"']),
        (errors.EpochConflict, ["name of its own"]),
        (
            errors.EpochContentConflict,
            ["keeps the rows of the first run", '.option("write_name"', "checkpoint", '.option("epoch_check", "none")'],
        ),
        (errors.StagingUnsupported, ['.option("delivery", "at_least_once")']),
        (errors.StagedIncomplete, ["Run this again", "staging_ttl"]),
        (errors.WriterFenced, ["Run this again"]),
        (errors.Unauthenticated, ["FOREBAY_TOKEN", "spark.executorEnv", "token_file"]),
        (errors.HandshakeFailed, ["tls_ca_file", "tls_server_name", "cluster_options"]),
        (errors.CredentialsUnusable, ["cluster_options", "absolute path", "before Spark starts"]),
        (errors.PermissionDenied, ["allowed"]),
        (errors.BrokerFault, ["forebay info --endpoint broker:1"]),
    ],
)
def test_each_error_has_its_advice(kind: type[errors.ForebayError], words: list[str]) -> None:
    assert [word for word in words if word not in advice(kind("text"))] == []


def test_a_time_out_behind_a_full_sink_is_about_the_sink() -> None:
    full = errors.DeliveryTimeout("not in time", facts={"refusal": "SINK_FULL"})

    assert "forebay lag orders" in advice(full)
    assert "whole batch has to fit" in advice(full)
    assert "raise the option delivery_timeout_s" in advice(errors.DeliveryTimeout("not in time"))


def test_the_first_line_says_what_could_not_be_done_and_why() -> None:
    text = str(explained(errors.SinkFull("it is full"), TARGET, doing="commit to"))

    assert text.splitlines()[0] == "Could not commit to sink 'orders' at broker:1: SinkFull: it is full"
