"""A sink's settings are the same everywhere: on the wire, in the core, in the broker's configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from google.protobuf.field_mask_pb2 import FieldMask

from forebay.broker.core.settings import DEFAULTS, SETTING_NAMES, BufferMode, Ordering, Overflow, SinkSettings
from forebay.broker.rpc.sinks import convert as sinks
from forebay.broker.settings import SinkDefaults
from forebay.v1 import sink_pb2

WIRE: Final = sink_pb2.SinkSettings.DESCRIPTOR
OTHER: Final = SinkSettings(
    partitions=3,
    buffer_page_size=7,
    max_disk_cache=11,
    max_total_bytes=5_000,
    overflow=Overflow.DROP_OLDEST,
    in_flight_bytes_max=128 << 10,
    resend_interval_us=1_500_000,
    retry_backoff_min_us=2_000,
    retry_backoff_max_us=3_000_001,
    retry_backoff_factor=1.5,
    ack_deadline_us=4_000_000,
    writer_ttl_us=61_000_000,
    staging_ttl_us=63_000_000,
    realtime=False,
    max_age_us=62_000_000,
    clean_cache_at_stop=True,
    memory_overload_protection=False,
    retain_acked_time_us=90_000_000,
    retain_acked_bytes=7_000,
    ordering=Ordering.RELAXED,
    resend_priority=-1,
    relaxed_failures_max=3,
    max_attempts=5,
    dlq=False,
    dlq_ratio_max=0.25,
    dlq_consecutive_max=7,
    buffer_mode=BufferMode.SPILL,
    fsync=False,
    volatile=True,
    memory_cache_threshold=1_000,
)
"""Nothing in it is a default."""


def core_name(field: str) -> str:
    """The core's name of a field of the wire: durations are microseconds there."""
    message = WIRE.fields_by_name[field].message_type
    return f"{field}_us" if message is not None and message.name == "Duration" else field


def test_the_wire_and_the_core_name_the_same_settings() -> None:
    assert {core_name(field.name) for field in WIRE.fields} == set(SETTING_NAMES)


def test_every_setting_can_be_named_by_an_update() -> None:
    assert set(sinks.PATHS) == {field.name for field in WIRE.fields}


def test_no_setting_of_the_other_sample_is_a_default() -> None:
    assert [name for name in SETTING_NAMES if getattr(OTHER, name) == getattr(DEFAULTS, name)] == []


def test_settings_survive_the_way_to_the_wire_and_back() -> None:
    for settings in (DEFAULTS, OTHER.checked()):
        assert SinkSettings(**sinks.given(sinks.settings_message(settings))) == settings


def test_a_message_without_settings_asks_for_nothing() -> None:
    assert sinks.given(sink_pb2.SinkSettings()) == {}


def test_a_zero_is_not_the_same_as_nothing() -> None:
    asked = sink_pb2.SinkSettings(max_disk_cache=0, realtime=False)

    assert sinks.given(asked) == {"max_disk_cache": 0, "realtime": False}


def test_an_update_of_every_path_takes_every_value() -> None:
    mask = FieldMask(paths=list(sinks.PATHS))

    assert sinks.masked(sinks.settings_message(OTHER), mask, DEFAULTS) == {
        name: getattr(OTHER, name) for name in SETTING_NAMES
    }


def test_a_named_setting_that_is_not_set_goes_back_to_its_default() -> None:
    mask = FieldMask(paths=list(sinks.PATHS))

    assert sinks.masked(sink_pb2.SinkSettings(), mask, OTHER) == {name: getattr(OTHER, name) for name in SETTING_NAMES}


def test_the_configuration_names_the_same_settings_in_seconds() -> None:
    names = {name.replace("_us", "_s") if name.endswith("_us") else name for name in SETTING_NAMES}

    assert set(SinkDefaults.model_fields) == names


def test_the_configuration_has_the_defaults_of_the_core() -> None:
    assert SinkDefaults().to_core() == DEFAULTS


def test_the_numbers_of_ordering_are_those_of_the_wire() -> None:
    wire = {value.name.removeprefix("ORDERING_"): value.number for value in sink_pb2.Ordering.DESCRIPTOR.values}

    assert {member.name: member.value for member in Ordering} | {"UNSPECIFIED": 0} == wire


def test_the_numbers_of_overflow_are_those_of_the_wire() -> None:
    wire = {value.name.removeprefix("OVERFLOW_"): value.number for value in sink_pb2.Overflow.DESCRIPTOR.values}

    assert {member.name: member.value for member in Overflow} | {"UNSPECIFIED": 0} == wire


def test_the_reference_says_of_every_setting_its_cost_and_its_equivalents() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "sink-settings.md").read_text()
    table = text.split("## What a setting costs", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE)

    assert sorted(rows) == sorted(SinkDefaults.model_fields)
