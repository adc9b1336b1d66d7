"""Settings of a consumer with saved positions."""

from __future__ import annotations

from dataclasses import fields

import pytest

from forebay.client import InvalidArgument
from forebay.client.positions.settings import ConsumerOptions, ConsumerSettings


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("guarantee", "exactly_once"),
        ("on_misfit", "ignore"),
        ("rw_timeout_s", 0),
        ("frequency_s", -0.1),
        ("count_threshold", 0),
        ("time_threshold_s", -1),
        ("save_failures_max", -1),
        ("stop_timeout_s", 3601),
        ("buffer_bytes", 1),
        ("refresh_s", 0),
    ],
)
def test_a_wrong_value_is_refused_with_name_value_and_allowed_range(setting: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=setting) as refused:
        ConsumerSettings(**{setting: value})  # type: ignore[arg-type]  # one of its fields

    assert refused.value.facts["value"] == str(value)
    assert refused.value.facts["allowed"]


def test_every_setting_is_an_option_of_a_consumer() -> None:
    assert list(ConsumerOptions.__annotations__) == [field.name for field in fields(ConsumerSettings)]
