"""Settings of a consumer with saved positions."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from forebay.client import InvalidArgument
from forebay.client.positions.settings import ConsumerOptions, ConsumerSettings
from forebay.client.positions.stores import azure_blob
from forebay.client.positions.stores.azure_blob import AzureBlobOptions
from forebay.client.positions.stores.cassandra import CassandraOptions


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


def test_every_name_that_replaces_one_of_iothub_react_is_a_setting_an_option_or_a_variable() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "saved-positions.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([A-Za-z.]+)` \| `([A-Za-z_]+)` \|", page.partition("## From iothub-react")[2], re.MULTILINE
    )
    known = {one.name for kind in (ConsumerSettings, AzureBlobOptions, CassandraOptions) for one in fields(kind)}

    assert len(rows) == 15
    assert {name for _, name in rows} <= known | {
        *("store", azure_blob.ACCOUNT, azure_blob.KEY, "CASSANDRA_USERNAME", "CASSANDRA_PASSWORD"),
    }
