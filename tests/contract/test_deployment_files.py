"""Files of deploy/ follow the code: settings that they name exist, and the commands that they start parse."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.main import get_command

from forebay.broker.core.settings import SETTINGS
from forebay.broker.settings import BrokerSettings, load
from forebay.cli.app import app

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
CHART: Final = DEPLOY / "helm" / "forebay"
UNITS: Final = DEPLOY / "systemd"
BROKER: Final = frozenset(BrokerSettings.model_fields)
SINK: Final = frozenset(setting.public_name for setting in SETTINGS)


def documented() -> dict[str, Any]:
    """Return the settings of the example in values.yaml."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    example = re.search(r"^settings: \{\}\n((?:#.*\n)+)", text, re.MULTILINE)
    assert example is not None
    found: dict[str, Any] = yaml.safe_load(re.sub(r"^#", "", example[1], flags=re.MULTILINE))
    return found


def set_by_chart() -> set[str]:
    """Return the names of the settings that the templates write."""
    text = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    first = re.search(r'\$ours := dict ((?:"[^"]*" ?)+)', text)
    assert first is not None
    return {*re.findall(r'set \$ours "([a-z_]+)"', text), *re.findall(r'"([^"]*)"', first[1])[::2]}


def parse(line: str) -> None:
    """Parse a command line without its first word; raises for a missing argument, unknown option or wrong value."""
    command: Any = get_command(app)
    words = shlex.split(line)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context("", words)


def test_the_chart_sets_settings_that_exist() -> None:
    assert {"listen", "data_dir", "metrics_allow_anonymous"} <= set_by_chart() <= BROKER


def test_the_schema_of_the_values_names_every_other_setting() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

    assert set(schema["properties"]["settings"]["propertyNames"]["enum"]) == BROKER - set_by_chart()


def test_the_schema_has_every_value_with_a_default_and_no_other() -> None:
    def names(document: dict[str, Any]) -> set[str]:
        return {name for key, value in document.items() for name in (key, *(f"{key}.{each}" for each in value or ()))}

    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    declared = {name: each.get("properties", {}) for name, each in schema.items() if name != "global"}
    free = {name for name, each in declared.items() if not each} | {name for name in declared if name.endswith("Probe")}
    given = {name: {} if name in free else value for name, value in values.items()}

    assert names(given) == names({name: {} if name in free else each for name, each in declared.items()})


@pytest.mark.parametrize(
    "place", ["the example of values.yaml", *sorted(file.name for file in (CHART / "ci").iterdir())]
)
def test_settings_of_values_exist(place: str) -> None:
    file = CHART / "ci" / place
    settings = (
        (yaml.safe_load(file.read_text(encoding="utf-8")).get("settings") or {}) if file.exists() else documented()
    )

    assert set(settings) <= BROKER - set_by_chart()
    assert set(settings.get("sink_defaults", {})) <= SINK


@pytest.mark.parametrize("secured", [False, True], ids=["as it is", "with its comments"])
def test_the_broker_accepts_the_example_of_its_settings(secured: bool, tmp_path: Path) -> None:
    text = (UNITS / "broker.toml").read_text(encoding="utf-8")
    if secured:
        text = re.sub(r"^# (?=[a-z_]+ = )", "", text.replace('listen = "127.0.0.1:7461"\n', "", 1), flags=re.MULTILINE)
    file = tmp_path / "broker.toml"
    file.write_text(text, encoding="utf-8")

    settings = load(file, from_environment=False)

    assert settings.token_hashes_file == ("/etc/forebay/tokens" if secured else "")
    assert set(tomllib.loads(text)) <= BROKER


def test_the_brokers_of_a_shard_accept_their_example(tmp_path: Path) -> None:
    text = (UNITS / "shard.toml").read_text(encoding="utf-8")
    files = []
    for host in (1, 2):
        file = tmp_path / f"{host}.toml"
        file.write_text(text.replace("broker-1.", f"broker-{host}."), encoding="utf-8")
        files.append(load(file, from_environment=False))
    first, second = files

    assert first.shard == "a"
    assert first != second
    assert first.model_copy(update={"advertise": second.advertise}) == second


@pytest.mark.parametrize("unit", sorted(UNITS.glob("*.service")), ids=lambda unit: unit.stem)
def test_the_commands_of_a_unit_parse(unit: Path) -> None:
    lines = re.findall(r"^Exec\w+=/opt/forebay/bin/forebay (.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)

    assert lines
    for line in lines:
        parse(line)


def test_the_commands_of_the_installed_program_in_the_documents_parse() -> None:
    text = (DEPLOY.parent / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
    lines = re.findall(r"/opt/forebay/bin/forebay ([^`\n]*)", text)

    assert len(lines) > 1
    for line in lines:
        parse(line)


def test_the_chart_installs_the_version_of_the_project() -> None:
    version = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

    assert yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"] == version
