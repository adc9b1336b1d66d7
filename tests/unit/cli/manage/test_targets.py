"""Targets are listed with their origin, and their options with defaults and allowed values."""

from __future__ import annotations

import json
from dataclasses import fields
from inspect import signature
from typing import Any

import pytest

from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.deliver.targets.http_options import DESCRIPTION as HTTP
from forebay.deliver.targets.http_settings import HttpSettings
from forebay.deliver.targets.postgresql.settings import DESCRIPTION as POSTGRESQL
from forebay.deliver.targets.postgresql.settings import settings_of


def own_target(*, table: str, limit: str = "7", **more: str) -> object:
    """Write into a table.

    More words.
    """
    raise AssertionError((table, limit, more))


def test_every_built_in_target_is_listed_with_its_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["target", "list", "-o", "json"]) == ExitCode.OK
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}

    assert {"console", "file", "http", "postgresql"} <= found.keys()
    assert all(one["usable"] and one["summary"] and one["origin"] == "built in" for one in found.values())


def test_the_options_of_http_are_the_fields_of_its_settings() -> None:
    defaults = {field.name: field.default for field in fields(HttpSettings) if field.name != "headers"}
    described = {one.name: one for one in HTTP.options if one.name != "header.NAME"}

    assert list(described) == list(defaults)
    assert described.pop("url").default is None
    assert {name: one.default for name, one in described.items()} == {
        name: _text(default) for name, default in defaults.items() if name != "url"
    }


def test_the_options_of_postgresql_are_those_that_it_parses() -> None:
    parameters = signature(settings_of).parameters.values()

    assert {one.name: one.default for one in POSTGRESQL.options} == {
        one.name: None if one.default is one.empty else one.default for one in parameters
    }


def test_defaults_are_shown_as_they_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["target", "show", "http"]) == ExitCode.OK
    words = [line.split() for line in capsys.readouterr().out.splitlines()]

    (shown,) = [line[:3] for line in words if line[:1] == ["retry_after_max_s"]]
    assert shown == ["retry_after_max_s", "duration", "1h"]


def test_options_of_another_target_are_those_of_its_factory(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["target", "show", f"{__name__}:own_target", "-o", "json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)

    assert (found["summary"], found["complete"], found["origin"]) == ("Write into a table.", False, "import")
    assert [(one["name"], one["default"]) for one in found["options"]] == [("table", None), ("limit", "7")]


def test_a_table_shows_what_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["target", "show", "file"]) == ExitCode.OK
    out = capsys.readouterr().out

    assert "path" in out
    assert "required" in out


def test_an_unknown_target_is_wrong_usage_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["target", "show", "ftp"]) == ExitCode.USAGE
    assert "postgresql" in capsys.readouterr().err


def _text(default: Any) -> str:
    if default is None:
        return ""
    return (
        str(default).lower()
        if isinstance(default, bool)
        else f"{default:g}"
        if isinstance(default, float)
        else str(default)
    )
