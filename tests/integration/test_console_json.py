"""The JSON of each page of the console has the figures of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jinja2 import Environment, nodes

from forebay.broker.console.pages.table import PAGES
from forebay.broker.console.render import TEMPLATES
from forebay.broker.embedded import BrokerServer
from tests.support.console.filled import fill, settings
from tests.support.console.pages import data

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


@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_no_figure_that_its_json_lacks(server: BrokerServer, path: str) -> None:
    address = path.replace("{sink}", SINKS.get(path, "orders")) + ".json" + QUERIES.get(path, "")

    figures = read_by(f"{PAGES[path].build.__name__}.html") - REQUESTED.get(path, set())

    assert figures
    assert figures - data(server, address).keys() == set()
