"""Requests to the console of a broker, as a browser or a program sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlencode, urlsplit

from forebay.broker.embedded import BrokerServer

EVIL = "<script>alert(1)</script>\x1b[31m"
"""Text that must stay a text."""


@contextmanager
def asked(
    server: BrokerServer,
    path: str,
    token: str = "",
    *,
    form: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Iterator[HTTPResponse]:
    """Send a request, with a form as a POST."""
    assert server.serving is not None
    place = urlsplit(server.serving.console_url)
    connection = HTTPConnection(str(place.hostname), place.port, timeout=30)
    sent = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
    if form is not None:
        sent["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        body = urlencode(form) if form is not None else None
        connection.request("GET" if form is None else "POST", path, body=body, headers=sent)
        yield connection.getresponse()
    finally:
        connection.close()


def html(server: BrokerServer, path: str, status: int = 200, token: str = "", **sent: Any) -> str:
    """Return a page."""
    with asked(server, path, token, **sent) as response:
        found = response.read().decode()
        assert response.status == status, found
        return found


def data(server: BrokerServer, path: str, token: str = "") -> Any:
    """Return the JSON of a page."""
    return json.loads(html(server, path, token=token))


def next_event(response: HTTPResponse) -> tuple[str, Any]:
    """Return name and data of the next event of a stream."""
    name = "message"
    for line in response:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        if text.startswith("data: "):
            return name, json.loads(text.removeprefix("data: "))
    return "end", None
