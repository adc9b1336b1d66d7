from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.errors import InvalidName, InvalidSetting
from forebay.broker.core.settings import DEFAULTS, Overflow, SinkSettings, is_id, sink_name


@pytest.mark.parametrize("name", ["a", "0", "orders", "a.b-c_d", "x" * 123, "dlq", "orders.dlq.old"])
def test_a_good_name_is_taken(name: str) -> None:
    assert sink_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "A", "-a", ".a", "_a", "a b", "a/b", "ä", "x" * 124, "orders.dlq", "a\n", "a" * 10_000]
)
def test_a_bad_name_is_refused_and_never_repeated_at_length(name: str) -> None:
    with pytest.raises(InvalidName) as refused:
        sink_name(name)

    assert refused.value.field == "name"
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("text", ["a", "A-z_9.", "x" * 64])
def test_a_good_id_is_one(text: str) -> None:
    assert is_id(text)


@pytest.mark.parametrize("text", ["", "x" * 65, "a b", "a\n", "é"])
def test_a_bad_id_is_none(text: str) -> None:
    assert not is_id(text)


def test_the_defaults_are_good() -> None:
    assert DEFAULTS.checked() is DEFAULTS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partitions", 0),
        ("partitions", 1025),
        ("buffer_page_size", 0),
        ("buffer_page_size", 65_537),
        ("max_disk_cache", -1),
        ("max_total_bytes", 1023),
        ("overflow", 0),
        ("overflow", 3),
        ("in_flight_bytes_max", 1),
        ("resend_interval_us", -1),
        ("retry_backoff_min_us", 0),
        ("retry_backoff_max_us", 1_000),
        ("retry_backoff_factor", 0.5),
        ("retry_backoff_factor", float("nan")),
        ("retry_backoff_factor", float("inf")),
        ("ack_deadline_us", 99_999),
        ("writer_ttl_us", 1),
        ("staging_ttl_us", 1),
        ("max_age_us", -1),
        ("max_age_us", 999_999),
        ("max_age_us", 3_651 * 86_400_000_000),
        ("clean_cache_at_stop", 1),
        ("ordering", 0),
        ("ordering", 3),
        ("resend_priority", -2),
        ("resend_priority", 2),
        ("relaxed_failures_max", 0),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_its_value_and_what_is_allowed(name: str, value: Any) -> None:
    with pytest.raises(InvalidSetting) as refused:
        replace(DEFAULTS, **{name: value}).checked()

    facts = refused.value.facts
    assert (facts["field"], facts["value"]) == (name, str(value))
    assert facts["allowed"]


def test_a_wrong_stored_value_is_corrected_and_the_rest_stays() -> None:
    stored = replace(DEFAULTS, partitions=7, buffer_page_size=0, retry_backoff_max_us=1_000)

    mended, wrong = stored.corrected()

    assert mended == replace(DEFAULTS, partitions=7)
    assert [problem.field for problem in wrong] == ["buffer_page_size", "retry_backoff_max_us"]
    assert mended.checked() is mended


def test_good_stored_values_are_left_alone() -> None:
    stored = SinkSettings(overflow=Overflow.DROP_OLDEST, max_disk_cache=3)

    assert stored.corrected() == (stored, [])


def test_partitions_can_be_added_but_never_removed() -> None:
    grown = DEFAULTS.changed({"partitions": 2})
    with pytest.raises(InvalidSetting, match="2 to 1024: partitions can be added, never removed"):
        grown.changed({"partitions": 1})

    assert grown == replace(DEFAULTS, partitions=2)
    assert DEFAULTS.changed({"partitions": 1, "realtime": False}) == replace(DEFAULTS, realtime=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partitions", "many"),
        ("partitions", [1]),
        ("partitions", True),
        ("max_disk_cache", 1.5),
        ("max_disk_cache", None),
        ("overflow", {"REJECT": 1}),
        ("retry_backoff_factor", "2"),
        ("retry_backoff_min_us", "100"),
        ("retry_backoff_max_us", None),
        ("max_age_us", [60]),
        ("realtime", 1),
        ("clean_cache_at_stop", "yes"),
    ],
)
def test_a_stored_value_of_another_type_is_told_once_and_corrected(name: str, value: Any) -> None:
    mended, wrong = replace(DEFAULTS, max_total_bytes=5_000, **{name: value}).corrected()

    assert mended == replace(DEFAULTS, max_total_bytes=5_000)
    assert [(problem.field, problem.facts["value"]) for problem in wrong] == [(name, str(value))]


def test_a_change_is_checked() -> None:
    with pytest.raises(InvalidSetting, match="ack_deadline_us"):
        DEFAULTS.changed({"ack_deadline_us": 0})


def test_differences_are_named_for_people() -> None:
    assert DEFAULTS.differences(DEFAULTS) == ""
    assert DEFAULTS.differences(replace(DEFAULTS, partitions=2)) == "partitions is 1, asked is 2"
