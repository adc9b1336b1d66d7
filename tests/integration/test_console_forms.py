"""Each page of the console as JSON and as commands: they have the figures of the page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from html import unescape

import pytest
from jinja2 import Environment, nodes

from forebay.broker.console.pages.table import PAGES
from forebay.broker.console.render import TEMPLATES
from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from tests.support.console.filled import fill, settings
from tests.support.console.pages import data, html

SINKS = {"/sinks/{sink}/schemas": "rows", "/sinks/{sink}/dead-letters": "alerts"}
QUERIES = {"/sinks/{sink}/explain": "?partition=0&offset=3", "/sinks/{sink}/tail": "?after=0_0_0_0"}

REQUESTED = {
    "/sinks/{sink}/records": {"name", "key", "contains", "is_filtered", "view", "views"},
    "/sinks/{sink}/tail": {"name", "contains", "rate", "rate_max", "partition", "view"},
    "/sinks/{sink}/schemas": {"name"},
    "/sinks/{sink}/explain": {"name", "partition", "offset", "found"},
}
"""Values that repeat the request; and an answer whose fields are those of the JSON."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerServer]:
    with BrokerServer.on_disk(settings(tmp_path_factory.mktemp("broker"))) as running:
        fill(running)
        yield running


def read_by(template: str) -> set[str]:
    """Return the names of the values of a page that its template reads."""
    tree = Environment().parse((TEMPLATES / template).read_text())
    found = tree.find_all(nodes.Getattr)
    return {one.attr for one in found if isinstance(one.node, nodes.Name) and one.node.name == "data"}


def address(path: str, end: str = "") -> str:
    """Return the address of a page that has something to show."""
    return path.replace("{sink}", SINKS.get(path, "orders")) + end + QUERIES.get(path, "")


def commands(server: BrokerServer, path: str) -> list[str]:
    """Return the commands at the end of a page."""
    [line] = re.findall("<p>In a terminal: (.*?)</p>", html(server, address(path)), re.DOTALL)
    return [unescape(one) for one in re.findall("<code>(.*?)</code>", line)]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_no_figure_that_its_json_lacks(server: BrokerServer, path: str) -> None:
    figures = read_by(f"{PAGES[path].build.__name__}.html") - REQUESTED.get(path, set())

    assert figures
    assert figures - data(server, address(path, ".json")).keys() == set()


@pytest.mark.parametrize("path", [path for path in PAGES if not path.endswith("/tail")])
def test_the_commands_of_a_page_work_as_they_are_shown(
    server: BrokerServer, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in commands(server, path):
        if "--data-dir …" not in command:
            assert run(shlex.split(command)[1:]) == ExitCode.OK, command
            assert capsys.readouterr().out, command


def test_damage_names_a_command_for_each_of_its_parts(server: BrokerServer) -> None:
    found = commands(server, "/damage")

    address = f"--endpoint {server.endpoint}"
    backups = data(server, "/damage.json")["backups"]["target"]
    assert found == [
        f"forebay info {address}",
        f"forebay gaps purged {address}",
        "forebay quarantine list --data-dir …",
        "forebay verify --data-dir …",
        f"forebay backup list --target {backups}",
    ]


def test_deliveries_name_the_command_that_lists_the_programs(server: BrokerServer) -> None:
    assert [one.partition(" --endpoint")[0] for one in commands(server, "/deliveries")] == [
        "forebay lag -w",
        "forebay connections",
    ]
