"""Settings of a consumer with saved positions."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from docs.generator import consumer_settings
from forebay.broker.core.names import is_id
from forebay.client import InvalidArgument
from forebay.client.positions.settings import RANGES, ConsumerOptions, ConsumerSettings
from forebay.client.positions.stores import azure_blob
from forebay.client.positions.stores.azure_blob import AzureBlobOptions
from forebay.client.positions.stores.cassandra import CassandraOptions
from forebay.client.values.subscriptions import Position


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
        ("start", "newest"),
        ("start", -1),
        ("start", 1 << 63),
        ("start", True),
        ("start", 1.5),
        ("start", {0: -1}),
        ("start", {"0": 1}),
        ("start", {-1: 1}),
        ("start", {0: "earliest"}),
        ("subscription", "two words"),
        ("subscription", "x" * 65),
        ("settle", "false"),
        ("follow", 0),
        ("guarantee", ["at_least_once"]),
        ("namespace", ""),
        ("namespace", "-billing"),
        ("namespace", "a/b"),
        ("namespace", "x" * 129),
    ],
)
def test_a_wrong_value_is_refused_with_name_value_and_allowed_range(setting: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=setting) as refused:
        ConsumerSettings(**{setting: value})  # type: ignore[arg-type]  # one of its fields

    assert refused.value.facts["value"] in {repr(value), str(value)}
    assert refused.value.facts["allowed"]


@pytest.mark.parametrize("value", ["5", True, [5], b"5"])
def test_a_number_of_another_type_is_refused_with_name_and_range(value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"count_threshold = .*: must be a number, 1 to") as refused:
        ConsumerSettings(count_threshold=value)  # type: ignore[arg-type]  # no number

    assert refused.value.facts["field"] == "count_threshold"


@pytest.mark.parametrize("setting", RANGES)
def test_the_ends_of_a_range_are_allowed_and_what_is_beyond_is_refused_with_both_ends(setting: str) -> None:
    lowest, highest = RANGES[setting]

    for value in (lowest, highest):
        ConsumerSettings(**{setting: value})  # type: ignore[arg-type]  # one of its fields
    for value in (lowest - 0.01, highest + 1):
        with pytest.raises(InvalidArgument) as refused:
            ConsumerSettings(**{setting: value})  # type: ignore[arg-type]  # one of its fields
        assert [float(end) for end in refused.value.facts["allowed"].split(" to ")] == [lowest, highest]


@pytest.mark.parametrize(
    "start", [None, "earliest", "latest", 0, (1 << 63) - 1, {}, {0: 5, 7: 0}, datetime(2026, 1, 31, tzinfo=UTC)]
)
def test_each_kind_of_start_point_is_allowed(start: Position | None) -> None:
    assert ConsumerSettings(start=start).start == start


@pytest.mark.parametrize("name", ["a", "audit.v2_-", ".-", "x" * 64])
def test_each_name_that_a_subscription_may_have_is_allowed(name: str) -> None:
    assert is_id(name)
    assert ConsumerSettings(subscription=name).subscription == name


def test_every_setting_has_a_row_of_the_reference_with_default_and_allowed_values() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", consumer_settings.markdown(), re.MULTILINE)

    assert [name for name, *_ in rows] == [field.name for field in fields(ConsumerSettings)]
    found = {name: (default, allowed) for name, default, allowed, _ in rows}
    assert found["rw_timeout_s"] == ("10", "0.1 to 3,600")
    assert found["save_failures_max"] == ("`None`", "0 to 1,000,000,000, or `None`")
    assert found["on_misfit"] == ("`'error'`", "`'error'`, `'earliest'`, `'latest'`")


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
