"""Connections of the broker, with their streams."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from forebay.broker.console.pages.page import Page, PageSource, check_every_sink, query, refused
from forebay.broker.core.errors import BrokerError
from forebay.broker.rpc.connections import list_connections
from forebay.v1 import admin_service_pb2

CONNECTIONS: Final = 200
"""Connections on a page."""


async def connections(source: PageSource, request: Request) -> Page:
    """Return the connections and their streams; they need the right to view every sink."""
    check_every_sink(request, "The connections")
    wanted = admin_service_pb2.ListConnectionsRequest(
        page_size=CONNECTIONS, page_token=request.query_params.get("after", "")
    )
    try:
        found = list_connections(source.broker, source.connections, wanted)
    except BrokerError as error:
        raise refused(error) from error
    data = {
        "connections": found.connections,
        "now_us": source.broker.clock.wall_us(),
        "total": sum(source.connections.counts.values()),
        "next": query(after=found.next_page_token),
    }
    return Page(
        "connections.html",
        "Connections",
        data,
        "forebay connections",
        "/connections",
        query(after=wanted.page_token),
    )
