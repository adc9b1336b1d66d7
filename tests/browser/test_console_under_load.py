"""Each page of the console in a real browser while a publisher and a consumer work: what it shows moves, and fits."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from forebay.broker.console.pages.table import PAGES
from forebay.broker.embedded import BrokerServer
from tests.browser.opening import keep, opened
from tests.support.console.filled import fill, settings
from tests.support.console.load import SINK, Load, loaded
from tests.support.console.pages import data

SINKS = {"/sinks/{sink}/schemas": "rows", "/sinks/{sink}/dead-letters": "alerts"}
QUERIES = {"/sinks/{sink}/explain": "?partition=0&offset=3"}
SHOWN = [path.replace("{sink}", SINKS.get(path, SINK)) + QUERIES.get(path, "") for path in PAGES]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerServer]:
    with BrokerServer.on_disk(settings(tmp_path_factory.mktemp("broker"))) as running:
        fill(running)
        yield running


@pytest.fixture(scope="module")
def load(server: BrokerServer) -> Iterator[Load]:
    with loaded(server.endpoint) as found:
        yield found


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1400, "light")])
@pytest.mark.parametrize("path", SHOWN)
def test_a_page_is_accessible_and_fits_under_load(
    browser: Browser, server: BrokerServer, load: Load, path: str, width: int, scheme: str
) -> None:
    acked = load.acked
    with opened(browser, server, path, viewport={"width": width, "height": 900}, color_scheme=scheme) as page:
        found = Axe().run(page)
        too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        keep(page, path, f"{width}-{scheme}-load")

    assert found.violations_count == 0, found.generate_report()
    assert too_wide <= 0
    assert load.acked > acked, "the consumer continued"


def test_the_figures_of_the_overview_move_with_the_load(browser: Browser, server: BrokerServer, load: Load) -> None:
    with opened(browser, server, "/") as page:
        figure = page.locator(".figures div", has_text=re.compile("^Out")).locator("dd").first
        expect(figure).not_to_have_text("0", timeout=15_000)
        first = figure.inner_text()
        expect(figure).not_to_have_text(first, timeout=30_000)

        assert page.locator("#live").inner_text() == "live"
    assert data(server, "/overview.json")["out_per_s"] > 0


def test_an_open_page_of_a_sink_shows_new_ends_of_its_partitions(
    browser: Browser, server: BrokerServer, load: Load
) -> None:
    with opened(browser, server, f"/sinks/{SINK}") as page:
        end = page.locator("section tbody tr").first.locator("td").nth(7)
        first = end.inner_text()

        expect(end).not_to_have_text(first, timeout=15_000)

        assert int(end.inner_text().replace(",", "")) > int(first.replace(",", ""))
        assert page.locator(".chart").count() == 4, "15 minutes and 24 hours, backlog and rates of each"


def test_a_tail_under_load_continues_and_counts_what_it_left_out(
    browser: Browser, server: BrokerServer, load: Load
) -> None:
    with opened(browser, server, f"/sinks/{SINK}/tail?rate=5") as page:
        expect(page.get_by_text(re.compile("left out for the rate"))).to_be_visible(timeout=15_000)
        seen = page.get_by_text(re.compile("since the page was opened"))
        first = seen.inner_text()
        expect(seen).not_to_have_text(first, timeout=15_000)

        assert page.locator("#live").inner_text() == "live"


def test_the_consumer_of_the_load_is_on_the_pages_of_deliveries_and_connections(
    browser: Browser, server: BrokerServer, load: Load
) -> None:
    with opened(browser, server, "/deliveries") as page:
        line = page.get_by_role("row", name=re.compile(f"^{SINK} default"))
        expect(line).to_contain_text("under-load")
        expect(line).to_contain_text("flowing", timeout=15_000)
    with opened(browser, server, "/connections") as page:
        expect(page.get_by_role("row").filter(has_text="under-load")).to_contain_text("Deliver")
        expect(page.get_by_role("row").filter(has_text="Publish").first).to_contain_text(SINK)


def test_everything_that_was_published_is_acked_with_pages_open(browser: Browser, server: BrokerServer) -> None:
    with (
        opened(browser, server, "/"),
        opened(browser, server, "/deliveries"),
        loaded(server.endpoint, "other") as load,
        opened(browser, server, "/sinks/other") as page,
    ):
        end = page.locator("section tbody tr").first.locator("td").nth(7)
        expect(end).not_to_have_text(end.inner_text(), timeout=15_000)

    assert load.acked == load.published > 0
