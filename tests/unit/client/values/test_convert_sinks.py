"""Settings of a sink between keywords, the wire and values."""

from __future__ import annotations

from typing import Any

import pytest

from forebay.client.values import convert_sinks
from forebay.client.values.convert import value
from forebay.client.values.sink_settings import BufferMode, Overflow, SinkSettings
from forebay.errors.reasons import Reason
from forebay.v1 import sink_pb2
from tests.support.refusals import failure


@pytest.mark.parametrize("value", [Overflow.DROP_OLDEST, "DROP_OLDEST"])
def test_a_choice_is_given_as_a_member_or_by_its_name(value: Any) -> None:
    message, paths = convert_sinks.settings_message({"overflow": value, "ack_deadline_s": 1.5, "realtime": False})

    assert (message.overflow, message.ack_deadline.seconds, message.HasField("realtime")) == (1, 1, True)
    assert paths == ["overflow", "ack_deadline", "realtime"]


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("overflow", "BLOCK", "DROP_OLDEST or REJECT"),
        ("buffer_mode", BufferMode.UNSPECIFIED, "DISK, SPILL or MEMORY"),
        ("ordering", None, "STRICT or RELAXED"),
        ("partitions", -1, "a number within its bounds"),
        ("partitions", "4", "a number within its bounds"),
        ("realtime", "yes", "true or false"),
        ("ack_deadline_s", "1", "a number of seconds"),
        ("ack_deadline_s", float("inf"), "a number of seconds"),
        ("ack_deadline_s", float("nan"), "a number of seconds"),
        ("max_age_s", 4e-7, "0 or at least 0.000001"),
        ("retain_acked_time_s", -4e-7, "0 or at least 0.000001"),
        ("ack_deadline", 1, "one of ack_deadline_s, "),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_its_value_and_what_is_allowed(
    name: str, value: Any, allowed: str
) -> None:
    options: Any = {name: value}

    with failure(Reason.INVALID_SETTING) as refused:
        convert_sinks.settings_message(options)

    assert (refused.value.facts["field"], refused.value.facts["value"]) == (name, str(value))
    assert allowed in refused.value.facts["allowed"]


def test_a_choice_that_only_a_newer_broker_knows_is_unspecified() -> None:
    message = sink_pb2.SinkSettings.FromString(b"\x28\x63")

    assert value(SinkSettings, message).overflow is Overflow.UNSPECIFIED
