"""Web application of the console: each page as HTML, as JSON, and as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from forebay.broker.console.actions.actions import PATH as ACTION_PATH
from forebay.broker.console.actions.actions import Actions
from forebay.broker.console.pages.page import Page, PageSource
from forebay.broker.console.pages.plain import plain
from forebay.broker.console.pages.table import PAGES, Build, Follow
from forebay.broker.console.render import Renderer

HERE: Final = Path(__file__).parent

WATCHES_MAX: Final = 64
"""Open pages that are updated; later ones show a page that is not."""

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self';"
        " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with it a browser does not say that a form comes from this site.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Console:
    """Web application of one broker. Used on its loop."""

    def __init__(self, source: PageSource, renderer: Renderer) -> None:
        self._source = source
        self._renderer = renderer
        self._watches = 0

    def end(self) -> None:
        """End the updates of open pages."""
        self._source.ended.set()
        self._source.sampler.changed.fire()

    def application(self) -> Starlette:
        """Return the ASGI application."""
        routes: list[Route | Mount] = [
            Mount("/static", _Static(directory=HERE / "static")),
            Route("/", self._guarded(self._html(PAGES["/overview"].build, is_live=True))),
        ]
        for path, entry in PAGES.items():
            if entry.follow is not None:
                routes.append(Route(f"/events{path}", self._guarded(self._events(entry.build, entry.follow))))
            routes += [
                Route(f"{path}.json", self._guarded(self._json(entry.build))),
                Route(path, self._guarded(self._html(entry.build, is_live=entry.follow is not None))),
            ]
        if self._source.can_write:
            actions = Actions(self._source)
            preview, confirm = (self._own(build) for build in (actions.preview, actions.confirm))
            routes += [
                Route(f"{ACTION_PATH}.json", self._guarded(self._json(preview))),
                Route(ACTION_PATH, self._guarded(self._html(preview)), methods=["GET"]),
                Route(ACTION_PATH, self._guarded(self._html(confirm)), methods=["POST"]),
            ]
        return Starlette(routes=routes, exception_handlers={HTTPException: self._failed})

    @staticmethod
    def _own(build: Callable[[Request], Awaitable[Page]]) -> Build:
        async def page(source: PageSource, request: Request) -> Page:
            return await build(request)

        return page

    def _guarded(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            request.state.principal = self._source.admit(request)
            response = await handler(request)
            response.headers.update(HEADERS)
            return response

        return guarded

    def _html(self, build: Build, *, is_live: bool = False) -> Callable[[Request], Awaitable[Response]]:
        async def html(request: Request) -> Response:
            page = await build(self._source, request)
            # A page of hundreds of charts would hold up every call. Its values do not change.
            return HTMLResponse(await asyncio.to_thread(self._renderer.document, page, is_live=is_live))

        return html

    def _json(self, build: Build) -> Callable[[Request], Awaitable[Response]]:
        async def as_json(request: Request) -> Response:
            return JSONResponse(plain((await build(self._source, request)).data))

        return as_json

    def _events(self, build: Build, follow: Follow) -> Callable[[Request], Awaitable[Response]]:
        async def events(request: Request) -> Response:
            if self._watches >= WATCHES_MAX:
                raise HTTPException(503, f"{WATCHES_MAX} pages are open: this one is not updated.")
            await build(self._source, request)  # an error is the answer, and no event
            return StreamingResponse(self._updates(follow, request), media_type="text/event-stream")

        return events

    async def _updates(self, follow: Follow, request: Request) -> AsyncIterator[str]:
        """Yield the content of a page when it changes, until the reader is gone or may not see it any more."""
        self._watches += 1
        try:
            async with aclosing(follow(self._source, request)) as pages:
                async for page in pages:
                    content = None if page is None else await asyncio.to_thread(self._event, page)
                    yield ": nothing new\n\n" if content is None else content
        except HTTPException as refused:
            yield f"event: gone\ndata: {json.dumps(refused.detail)}\n\n"
        finally:
            self._watches -= 1

    def _event(self, page: Page) -> str:
        return f"data: {json.dumps(self._renderer.content(page))}\n\n"

    async def _failed(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), "the handler is that of its class"
        headers = {**HEADERS, **(error.headers or {})}
        if request.url.path.endswith(".json"):
            return JSONResponse({"error": error.detail}, error.status_code, headers)
        return HTMLResponse(self._renderer.failure(error.status_code, error.detail), error.status_code, headers)


class _Static(StaticFiles):
    """Style and script, from the package only."""

    async def get_response(self, path: str, scope: Any) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update({**HEADERS, "Cache-Control": "no-cache"})
        return response
