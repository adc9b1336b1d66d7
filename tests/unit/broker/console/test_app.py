"""A page does not hold up the calls to the broker, whose loop it is built on."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from forebay.broker.console.app import Console
from forebay.broker.console.pages.page import Page, PageSource
from forebay.broker.console.pages.producers import ProducerList
from forebay.broker.console.render import Renderer


def test_a_page_is_drawn_beside_the_loop() -> None:
    threads: dict[str, threading.Thread] = {}

    def endpoint() -> str:
        threads["drawn"] = threading.current_thread()
        return "127.0.0.1:7461"

    async def build(source: PageSource, request: Request) -> Page:
        threads["built"] = threading.current_thread()
        return Page("producers.html", "Spark", ProducerList(0, 0, ()), "forebay producers list", "/producers")

    console = Console(cast("PageSource", SimpleNamespace()), Renderer(endpoint))

    async def answer() -> Response:
        return await console._html(build)(Request({"type": "http"}))

    response = asyncio.run(answer())

    assert b"forebay producers list --endpoint 127.0.0.1:7461" in response.body
    assert threads["built"] is threading.current_thread()
    assert threads["drawn"] is not threading.current_thread()
