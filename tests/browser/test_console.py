"""Each page of the console in a real browser: accessible at two widths, light and dark, from this host only."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from forebay.broker.console.pages.table import PAGES
from forebay.broker.embedded import BrokerServer
from forebay.client import Client, Record
from tests.browser.opening import keep, opened

QUERIES = {"/sinks/{sink}/explain": "?partition=0&offset=3"}
SINKS = {"/sinks/{sink}/schemas": "rows", "/sinks/{sink}/dead-letters": "alerts"}
SHOWN = [path.replace("{sink}", SINKS.get(path, "orders")) + QUERIES.get(path, "") for path in PAGES]
SHOWN += ["/sinks/alerts/records?as=hex", "/sinks/alerts/actions/purge-dead-letters", "/sinks/orders/actions/pause"]
SHOWN += ["/sinks/rows/records?as=rows", "/sinks/orders/records?key=k3", "/sinks/alerts/actions/redrive?text=HTTP"]
SHOWN += ["/sinks/missing"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("path", SHOWN)
def test_a_page_is_accessible_and_fits(
    browser: Browser, server: BrokerServer, path: str, width: int, scheme: str
) -> None:
    size = {"width": width, "height": 900}
    with opened(browser, server, path, viewport=size, color_scheme=scheme) as page:
        found = Axe().run(page)
        too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        keep(page, path, f"{width}-{scheme}")

    assert found.violations_count == 0, found.generate_report()
    assert too_wide <= 0


def test_an_open_page_is_updated_without_losing_the_focus(browser: Browser, server: BrokerServer) -> None:
    with Client(server.endpoint) as client, opened(browser, server, "/") as page:
        link = page.get_by_role("link", name="orders", exact=True)
        link.focus()
        client.sinks.create("created-later", exist_ok=True)
        client.publish("created-later", [Record(b"x") for _ in range(1_000)])

        expect(page.get_by_role("link", name="created-later", exact=True)).to_be_visible(timeout=15_000)

        assert page.locator("#live").inner_text() == "live"
        assert page.evaluate("document.activeElement.textContent") == "orders"


def test_a_tail_shows_records_as_they_come(browser: Browser, server: BrokerServer) -> None:
    with Client(server.endpoint) as client, opened(browser, server, "/sinks/orders/tail?contains=wanted") as page:
        client.publish("orders", [Record(b"wanted"), Record(b"other")])

        expect(page.get_by_text("wanted", exact=True)).to_be_visible(timeout=15_000)
        assert page.get_by_text("other", exact=True).count() == 0


def test_a_filter_that_is_being_typed_is_not_overwritten(browser: Browser, server: BrokerServer) -> None:
    with Client(server.endpoint) as client, opened(browser, server, "/sinks/orders/tail") as page:
        typed = page.get_by_label("with the text")
        typed.fill("half a wo")
        client.publish("orders", [Record(b"while typing")])
        expect(page.locator("#live")).to_have_text("live", timeout=15_000)

        assert typed.input_value() == "half a wo"


def test_the_first_key_leads_to_the_content(browser: Browser, server: BrokerServer) -> None:
    with opened(browser, server, "/") as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")

        assert page.evaluate("document.activeElement.id") == "content"


def test_an_action_is_previewed_and_confirmed_with_the_keyboard(browser: Browser, server: BrokerServer) -> None:
    with Client(server.endpoint) as client, opened(browser, server, "/sinks/orders/actions/resume") as page:
        page.get_by_role("button", name="Resume deliveries").focus()
        page.keyboard.press("Enter")

        expect(page.get_by_text("orders is resumed.")).to_be_visible()
        client.sinks.pause("orders", "again")
