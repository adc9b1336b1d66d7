"""A page of the console in a browser, which may need nothing of other hosts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page

from forebay.broker.embedded import BrokerServer

SCREENSHOTS = os.environ.get("FOREBAY_SCREENSHOTS", "")
"""Folder for a picture of each page."""


@contextmanager
def opened(browser: Browser, server: BrokerServer, path: str, **context: Any) -> Iterator[Page]:
    """Open a page, and check at the end that it needed nothing of other hosts and that no script failed."""
    assert server.serving is not None
    base = server.serving.console_url
    foreign: list[str] = []
    errors: list[str] = []
    with browser.new_context(base_url=base, **context) as tab:
        page = tab.new_page()
        page.on("request", lambda request: foreign.append(request.url) if _is_foreign(request.url, base) else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.goto(path, wait_until="load")
        yield page
        assert foreign == []
        failed = [error for error in errors if "404" not in error]
        assert failed == [], failed


def keep(page: Page, path: str, kind: str) -> None:
    """Keep a picture of a page if a folder for them is named."""
    if SCREENSHOTS:
        name = re.sub(r"\W+", "-", path.strip("/")) or "overview"
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}-{kind}.png", full_page=True)


def _is_foreign(url: str, base: str) -> bool:
    return urlsplit(url).netloc != urlsplit(base).netloc
