"""A broker with a console and something to see, and a browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from forebay.broker.embedded import BrokerServer
from tests.support.console.filled import fill, settings

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.fail(f"none of {', '.join(BROWSERS)} was found: install Chromium (Debian, Ubuntu: apt install chromium)")
    with sync_playwright() as playwright:
        # A container has no namespaces for the sandbox of the browser.
        yield playwright.chromium.launch(executable_path=found, args=["--no-sandbox"] if os.geteuid() == 0 else [])


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerServer]:
    with BrokerServer.on_disk(settings(tmp_path_factory.mktemp("broker"))) as running:
        fill(running)
        yield running
