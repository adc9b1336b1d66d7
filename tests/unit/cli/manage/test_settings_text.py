"""Settings as text get the types that the client's settings have, and mistakes are named."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from forebay.cli.exits import ExitCode
from forebay.cli.manage.settings_text import parse_settings
from forebay.cli.report import CommandFailed
from forebay.client import Overflow, SinkSettings

KINDS = get_type_hints(SinkSettings) | {"maybe": int | None}


def test_every_type_is_understood() -> None:
    pairs = ["overflow=drop_oldest", "max-disk-cache=1_000", "retry_backoff_factor=1.5", "realtime=off", "maybe=3"]

    assert parse_settings(pairs, KINDS) == {
        "overflow": Overflow.DROP_OLDEST,
        "max_disk_cache": 1000,
        "retry_backoff_factor": 1.5,
        "realtime": False,
        "maybe": 3,
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
