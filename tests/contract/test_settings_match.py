"""A sink's settings are the same everywhere: in the table, on the wire and in its comments, in the client."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, cast, get_type_hints

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from docs.generator.proto_comments import comments
from forebay.broker.core.settings import DEFAULTS, SETTING_NAMES, SETTINGS, Setting, SinkSettings
from forebay.broker.rpc.sinks import convert as sinks
from forebay.client import SinkSettings as ClientSettings
from forebay.client.values import convert_sinks
from forebay.client.values.convert import value
from forebay.client.values.sink_settings import SinkOptions
from forebay.v1 import sink_pb2
from tests.support.brokers.settings import OTHER

WIRE: Final = sink_pb2.SinkSettings.DESCRIPTOR


def test_the_wire_and_the_table_have_the_same_settings() -> None:
    assert [field.name for field in WIRE.fields] == [setting.wire_name for setting in SETTINGS]
    for setting in SETTINGS:
        field = WIRE.fields_by_name[setting.wire_name]
        assert (field.message_type is not None, field.enum_type is not None) == (
            setting.is_duration,
            setting.choices is not None,
        )


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting.choices], ids=lambda one: one.name)
def test_the_numbers_of_choices_are_those_of_the_wire(setting: Setting) -> None:
    assert convert_sinks.CHOICES[setting.public_name] == {each.name: each.value for each in setting.choices or ()}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
def test_the_comment_of_a_setting_has_its_allowed_values_and_its_default(setting: Setting) -> None:
    allowed = "" if setting.choices or isinstance(setting.default, bool) else f"Allowed: {setting.allowed}. "
    prefix = f"{setting.wire_name.upper()}_" if setting.choices else ""
    default = f"`{prefix}{setting.text(setting.default)}`" if setting.choices else setting.text(setting.default)

    said = " ".join(comments("sink.proto")[f"SinkSettings.{setting.wire_name}"].split())

    assert said.endswith(f" {allowed}Default: {default}."), f"{allowed}Default: {default}."


def test_settings_survive_the_way_to_the_wire_and_back() -> None:
    assert [name for name in SETTING_NAMES if getattr(OTHER, name) == getattr(DEFAULTS, name)] == []
    for settings in (DEFAULTS, OTHER):
        assert SinkSettings(**sinks.given(sinks.settings_message(settings))) == settings


def test_settings_survive_the_way_through_the_client() -> None:
    message = sinks.settings_message(OTHER)

    values = value(ClientSettings, message)
    options = {name: getattr(values, name) for name in SinkOptions.__annotations__}
    again, paths = convert_sinks.settings_message(cast(SinkOptions, options))

    assert again == message
    assert sorted(paths) == sorted(field.name for field in WIRE.fields)


def test_the_clients_values_and_keywords_have_the_public_names() -> None:
    public = [setting.public_name for setting in SETTINGS]

    assert list(get_type_hints(ClientSettings)) == list(get_type_hints(SinkOptions)) == public


def test_an_update_of_every_path_takes_every_value() -> None:
    mask = FieldMask(paths=[field.name for field in WIRE.fields])

    assert SinkSettings(**sinks.masked(sinks.settings_message(OTHER), mask, DEFAULTS)) == OTHER
    assert SinkSettings(**sinks.masked(sink_pb2.SinkSettings(), mask, OTHER)) == OTHER


def test_the_equivalents_of_the_reference_name_settings() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "sink-settings.md").read_text()
    rows = re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE)

    assert rows
    assert set(rows) <= {setting.public_name for setting in SETTINGS}
