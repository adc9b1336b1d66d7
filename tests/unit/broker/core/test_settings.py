from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.errors import InvalidSetting
from forebay.broker.core.settings import DEFAULTS, SETTINGS, Overflow, SinkSettings

BY_NAME = {setting.name: setting for setting in SETTINGS}


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
    shown = str(value) if not name.endswith("_us") else BY_NAME[name].text(value)
    assert (facts["field"], facts["value"]) == (name.removesuffix("_us"), shown)
    assert facts["allowed"] in str(refused.value)


def test_a_wrong_stored_value_is_corrected_and_the_rest_stays() -> None:
    stored = replace(DEFAULTS, partitions=7, buffer_page_size=0, retry_backoff_max_us=1_000)

    mended, wrong = stored.corrected()

    assert mended == replace(DEFAULTS, partitions=7)
    assert [problem.field for problem in wrong] == ["buffer_page_size", "retry_backoff_max"]
    assert mended.checked() is mended


def test_a_sink_without_a_readable_mode_is_never_wiped_at_a_start() -> None:
    wrong: Any = "?"

    assert replace(DEFAULTS, volatile=True, buffer_mode=wrong).corrected()[0] == DEFAULTS


def test_good_stored_values_are_left_alone() -> None:
    stored = SinkSettings(overflow=Overflow.DROP_OLDEST, max_disk_cache=3)

    assert stored.corrected() == (stored, [])


def test_partitions_can_be_added_but_never_removed() -> None:
    grown = DEFAULTS.changed({"partitions": 2})
    with pytest.raises(InvalidSetting, match="2 to 1,024: partitions can be added, never removed"):
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
def test_a_stored_value_of_another_type_is_reported_once_and_corrected(name: str, value: Any) -> None:
    mended, wrong = replace(DEFAULTS, max_total_bytes=5_000, **{name: value}).corrected()

    assert mended == replace(DEFAULTS, max_total_bytes=5_000)
    assert [(problem.field, problem.facts["value"]) for problem in wrong] == [(name.removesuffix("_us"), str(value))]


def test_a_change_is_checked() -> None:
    with pytest.raises(InvalidSetting, match=r"^ack_deadline = 0: must be 100 ms to 1 d"):
        DEFAULTS.changed({"ack_deadline_us": 0})


def test_differences_are_named_for_people() -> None:
    assert DEFAULTS.differences(DEFAULTS) == ""
    requested = replace(DEFAULTS, partitions=2, ack_deadline_us=1_500_000, overflow=Overflow.DROP_OLDEST)
    assert DEFAULTS.differences(requested) == (
        "partitions is 1, asked is 2, overflow is REJECT, asked is DROP_OLDEST, ack_deadline is 30 s, asked is 1,500 ms"
    )


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("ack_deadline_us", 99_999, "99,999 us"),
        ("max_age_us", 7 * 86_400_000_000, "7 d"),
        ("max_age_us", 0, "0"),
        ("max_total_bytes", 10_000_000_000, "10 GB"),
        ("max_total_bytes", 1_025, "1,025"),
        ("in_flight_bytes_max", 96 << 20, "96 MiB"),
        ("retry_backoff_factor", 1.5, "1.5"),
        ("overflow", 1, "DROP_OLDEST"),
        ("realtime", False, "false"),
    ],
)
def test_a_value_has_the_text_of_its_unit(name: str, value: Any, text: str) -> None:
    assert BY_NAME[name].text(value) == text


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("partitions", "1 to 1,024"),
        ("max_disk_cache", "0 (unlimited) or a number of records"),
        ("max_total_bytes", "at least 1 KiB"),
        ("max_age_us", "0 (unlimited) or 1 s to 3,650 d"),
        ("resend_priority", "-1 (new records first), 0 (oldest first) or 1 (retry queue first)"),
        ("buffer_mode", "DISK, SPILL or MEMORY"),
        ("dlq", "true or false"),
    ],
)
def test_the_allowed_values_of_a_setting_are_text_for_people(name: str, allowed: str) -> None:
    assert BY_NAME[name].allowed == allowed
