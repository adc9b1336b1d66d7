from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from forebay.broker.core.errors import InvalidSetting
from forebay.broker.core.settings import DEFAULTS, Overflow, SinkSettings
from forebay.broker.core.writes import SinkRecord
from forebay.broker.rpc.sinks import convert as sinks
from forebay.v1 import sink_pb2
from tests.support.brokers.settings import OTHER


def masked(message: sink_pb2.SinkSettings, *paths: str, defaults: SinkSettings = DEFAULTS) -> dict[str, Any]:
    return sinks.masked(message, FieldMask(paths=paths), defaults)


@pytest.mark.parametrize("settings", [DEFAULTS, OTHER])
def test_settings_round_trip_over_the_wire(settings: SinkSettings) -> None:
    message = sinks.settings_message(settings)

    assert replace(DEFAULTS, **sinks.given(message)) == settings


def test_only_what_the_message_sets_is_given() -> None:
    assert sinks.given(sink_pb2.SinkSettings()) == {}
    assert sinks.given(sink_pb2.SinkSettings(max_disk_cache=0, realtime=False)) == {
        "max_disk_cache": 0,
        "realtime": False,
    }


def test_a_mask_chooses_what_changes() -> None:
    message = sinks.settings_message(replace(OTHER, max_disk_cache=5_000, ack_deadline_us=7_000_001))

    assert masked(message, "max_disk_cache", "ack_deadline") == {"max_disk_cache": 5_000, "ack_deadline_us": 7_000_001}


def test_a_setting_in_the_mask_that_is_not_set_goes_back_to_the_brokers_default() -> None:
    defaults = replace(DEFAULTS, max_disk_cache=77)

    assert masked(sink_pb2.SinkSettings(), "max_disk_cache", "overflow", defaults=defaults) == {
        "max_disk_cache": 77,
        "overflow": Overflow.REJECT,
    }


@pytest.mark.parametrize(
    "paths", [[], ["nothing"], ["ack_deadline_us"], ["max_disk_cache", ""], ["ack_deadline.seconds"]]
)
def test_an_empty_mask_and_unknown_paths_are_refused(paths: list[str]) -> None:
    with pytest.raises(InvalidSetting) as refused:
        masked(sink_pb2.SinkSettings(), *paths)

    assert refused.value.field == "update_mask"


@pytest.mark.parametrize("seconds", [315_576_000_000, -315_576_000_000])
def test_a_duration_far_out_of_bounds_is_a_wrong_setting_and_no_accident(seconds: int) -> None:
    values = sinks.given(sink_pb2.SinkSettings(ack_deadline=Duration(seconds=seconds)))

    with pytest.raises(InvalidSetting):
        DEFAULTS.changed(values)


@pytest.mark.parametrize("name", ["max_age", "retain_acked_time", "resend_interval"])
def test_a_duration_below_a_microsecond_is_refused_and_not_taken_as_none(name: str) -> None:
    def given(nanos: int) -> dict[str, Any]:
        message = sink_pb2.SinkSettings()
        getattr(message, name).CopyFrom(Duration(nanos=nanos))
        return sinks.given(message)

    with pytest.raises(InvalidSetting, match=f"{name} = 999 ns"):
        given(999)

    assert (given(1_000), given(0)) == ({f"{name}_us": 1}, {f"{name}_us": 0})


def test_a_sink_shows_all_its_settings() -> None:
    record = SinkRecord(1, "orders", "abc", OTHER, 1_700_000_000_000_000)

    message = sinks.sink(record)

    assert (message.name, message.incarnation, message.created_at.seconds) == ("orders", "abc", 1_700_000_000)
    assert message.settings == sinks.settings_message(OTHER)
