"""Web application of the console: each page as HTML, as JSON, and as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from forebay.broker.console.access import Access
from forebay.broker.console.pages import Page, Pages
from forebay.broker.console.render import Renderer
from forebay.broker.console.sampler import Sampler

HERE: Final = Path(__file__).parent

WATCHES_MAX: Final = 64
"""Open pages that are updated; later ones show a page that is not."""

QUIET_S: Final = 15.0
"""Time after which a comment is sent, so that a connection whose browser is gone ends."""

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self';"
        " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Build = Callable[[Pages, Request], Awaitable[Page]]


class Console:
    """Web application of one broker. Used on its loop."""

    def __init__(self, sampler: Sampler, pages: Pages, access: Access, renderer: Renderer) -> None:
        self._sampler = sampler
        self._pages = pages
        self._access = access
        self._renderer = renderer
        self._watches = 0
        self._ended = asyncio.Event()

    def end(self) -> None:
        """End the updates of open pages."""
        self._ended.set()
        self._sampler.changed.fire()

    def application(self) -> Starlette:
        """Return the ASGI application."""
        routes: list[Route | Mount] = [Mount("/static", _Static(directory=HERE / "static"))]
        for path, build in (PAGES | STILL).items():
            if path in PAGES:
                routes.append(Route(f"/events{path or '/overview'}", self._guarded(self._events(build))))
            routes += [
                Route(f"{path or '/'}.json" if path else "/overview.json", self._guarded(self._json(build))),
                Route(path or "/", self._guarded(self._html(build))),
            ]
        return Starlette(routes=routes, exception_handlers={HTTPException: self._failed})

    def _guarded(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            request.state.principal = self._access.admit(request)
            response = await handler(request)
            response.headers.update(HEADERS)
            return response

        return guarded

    def _html(self, build: Build) -> Callable[[Request], Awaitable[Response]]:
        async def html(request: Request) -> Response:
            return HTMLResponse(self._renderer.document(await build(self._pages, request)))

        return html

    def _json(self, build: Build) -> Callable[[Request], Awaitable[Response]]:
        async def as_json(request: Request) -> Response:
            page = await build(self._pages, request)
            return JSONResponse(page.data if isinstance(page.data, dict) else asdict(page.data))

        return as_json

    def _events(self, build: Build) -> Callable[[Request], Awaitable[Response]]:
        async def events(request: Request) -> Response:
            if self._watches >= WATCHES_MAX:
                raise HTTPException(503, f"{WATCHES_MAX} pages are open: this one is not updated.")
            await build(self._pages, request)  # an error is the answer, and no event
            return StreamingResponse(self._updates(build, request), media_type="text/event-stream")

        return events

    async def _updates(self, build: Build, request: Request) -> AsyncIterator[str]:
        """Yield the content of a page after each sample, until the reader is gone or may not see it any more."""
        self._watches += 1
        try:
            while not self._ended.is_set():
                changed = self._sampler.changed.next()
                try:
                    async with asyncio.timeout(QUIET_S):
                        await changed.wait()
                except TimeoutError:
                    yield ": waiting\n\n"
                    continue
                if self._ended.is_set():
                    return
                try:
                    request.state.principal = self._access.admit(request)
                    content = self._renderer.content(await build(self._pages, request))
                except HTTPException as refused:
                    yield f"event: gone\ndata: {json.dumps(refused.detail)}\n\n"
                    return
                yield f"data: {json.dumps(content)}\n\n"
        finally:
            self._watches -= 1

    async def _failed(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), "the handler is that of its class"
        headers = {**HEADERS, **(error.headers or {})}
        if request.url.path.endswith(".json"):
            return JSONResponse({"error": error.detail}, error.status_code, headers)
        return HTMLResponse(self._renderer.failure(error.status_code, error.detail), error.status_code, headers)


PAGES: Final[dict[str, Build]] = {
    "": Pages.overview,
    "/sinks": Pages.sinks,
    "/sinks/{sink}": Pages.sink,
    "/connections": Pages.connections,
}
"""Pages by path. Their JSON is at the path with ``.json``, their events are under ``/events``."""

STILL: Final[dict[str, Build]] = {
    "/sinks/{sink}/records": Pages.records,
    "/sinks/{sink}/dead-letters": Pages.letters,
}
"""Pages without events."""


class _Static(StaticFiles):
    """Style and script, from the package only."""

    async def get_response(self, path: str, scope: Any) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update({**HEADERS, "Cache-Control": "no-cache"})
        return response
