"""Settings as text get the types that the client's settings have, and mistakes are named."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli.exits import ExitCode
from forebay.cli.manage.settings_text import nested_texts, parse_settings, setting_text
from forebay.cli.output import plain
from forebay.cli.report import CommandFailed
from forebay.client import Client, Overflow, SinkSettings

KINDS = get_type_hints(SinkSettings) | {"maybe": int | None}


def test_every_setting_of_a_sink_is_shown_as_it_can_be_typed() -> None:
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as client:
        settings = client.sinks.create("orders").settings
    shown = plain(settings)
    assert isinstance(shown, dict)

    pairs = [f"{name}={setting_text(name, value)}" for name, value in shown.items()]

    assert SinkSettings(**parse_settings(pairs, KINDS)) == settings


def test_sizes_and_durations_are_shown_with_units_also_below_a_table() -> None:
    values = {"sink_defaults.max_age_s": 3600, "tail_bytes": 1 << 30, "dlq": True, "partitions": 3600}

    assert [setting_text(*one) for one in values.items()] == ["1h", "1GiB", "true", "3600"]


def test_every_type_is_understood() -> None:
    pairs = ["overflow=drop_oldest", "max-disk-cache=1_000", "retry_backoff_factor=1.5", "realtime=off", "maybe=3"]
    pairs += ["max_total_bytes=64MiB", "max_age_s=1h30m", "ack_deadline_s=0.5"]

    assert parse_settings(pairs, KINDS) == {
        "overflow": Overflow.DROP_OLDEST,
        "max_disk_cache": 1000,
        "retry_backoff_factor": 1.5,
        "realtime": False,
        "maybe": 3,
        "max_total_bytes": 64 << 20,
        "max_age_s": 5400.0,
        "ack_deadline_s": 0.5,
    }


def test_a_setting_of_a_table_is_named_by_a_dot() -> None:
    pairs = [
        "sinks-max=100",
        "sink_defaults.partitions=4",
        "sink_defaults.overflow=DROP_OLDEST",
        "listen=a:1",
        "drain_s=",
    ]

    assert nested_texts(pairs) == {
        "sinks_max": "100",
        "sink_defaults": {"partitions": "4", "overflow": "DROP_OLDEST"},
        "listen": "a:1",
        "drain_s": "",
    }


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        ("overflow", "is not NAME=VALUE"),
        ("colour=red", "unknown setting 'colour': must be one of ack_deadline_s"),
        ("overflow=maybe", "must be one of DROP_OLDEST, REJECT"),
        ("partitions=two", "must be an integer"),
        ("ack_deadline_s=soon", "a number"),
        ("realtime=perhaps", "must be true or false"),
    ],
)
def test_a_mistake_is_named_and_is_wrong_usage(pair: str, problem: str) -> None:
    with pytest.raises(CommandFailed, match=problem) as refusal:
        parse_settings([pair], KINDS)

    assert refusal.value.code is ExitCode.USAGE
