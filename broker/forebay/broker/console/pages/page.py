"""One page, and what all pages are made from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from starlette.exceptions import HTTPException
from starlette.requests import Request

from forebay.broker.console.figures import SinkFigures
from forebay.broker.console.sampler import Sampler
from forebay.broker.core.access.principal import EVERY_SINK, Principal, Right
from forebay.broker.core.errors import BrokerError
from forebay.broker.core.last_check import LastCheck
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.resources.connections import Connections

T = TypeVar("T")

NUMBER_MAX: Final = (1 << 63) - 1
"""Highest offset, and highest number of a query."""

UINT32_MAX: Final = (1 << 32) - 1
"""Highest number of a field that holds a partition or a version of a schema."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its data, and how it is shown."""

    template: str
    title: str
    data: Any
    """Values of the JSON: those of a dataclass, or of a dictionary. They have every figure of the page."""

    command: str
    """Command that prints the same, without the address of the broker."""

    path: str
    query: str = ""
    """Query of this page, without the question mark."""

    shown: Any = None
    """Values of the template, if they are not the data."""

    further: tuple[str, ...] = ()
    """Commands for what the first one does not print, without the address."""

    offline: tuple[str, ...] = ()
    """Commands for what is outside of the broker, whole."""


@dataclass(frozen=True, slots=True)
class SinkLine:
    """One sink in a list."""

    figures: SinkFigures
    into: tuple[float, ...]
    """Records per second of the last 15 minutes, the oldest first."""

    waiting: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PageSource:
    """State that the pages are made from. Used on the loop of the broker."""

    broker: Broker
    sampler: Sampler
    endpoint: Callable[[], str]
    connections: Connections
    last_check: LastCheck | None
    """Result of the last `verify` of the data directory."""

    admit: Callable[[Request], Principal]
    """Returns the principal of a request at this time; raises ``HTTPException``."""

    can_write: bool = False
    """True if the console has actions."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the console stops."""

    async def lines(self, sinks: Sequence[SinkFigures]) -> list[SinkLine]:
        """Return sinks with their histories and ages."""
        snapshot = await self.sampler.current()
        found: list[SinkLine] = []
        for figures in await self.sampler.aged(sinks):
            history = snapshot.histories.get(figures.name)
            into, waiting = (history.quarter.into(), history.quarter.waiting()) if history is not None else ((), ())
            found.append(SinkLine(figures, into, waiting))
        return found

    async def visible(self, request: Request) -> list[SinkFigures]:
        """Return the sinks of the newest sample that the principal of a request may see."""
        principal: Principal = request.state.principal
        return [one for one in (await self.sampler.current()).sinks if principal.may(Right.VIEW, one.name)]

    def named(self, request: Request, right: Right = Right.VIEW) -> str:
        """Return the sink of a request.

        Raises ``HTTPException`` if it does not exist, or is not for the principal.
        """
        name: str = request.path_params["sink"]
        principal: Principal = request.state.principal
        if name not in self.broker.sinks or not principal.may(Right.VIEW, name):
            raise HTTPException(404, f"There is no sink {name!r} that you may see.")
        if not principal.may(right, name):
            raise HTTPException(403, f"The principal {principal.name} lacks the right {right} to {name!r}.")
        return name


def check_every_sink(request: Request, what: str) -> None:
    """Raise ``HTTPException`` unless the principal may view every sink."""
    if not request.state.principal.may(Right.VIEW, EVERY_SINK):
        raise HTTPException(403, f"{what} need the right view to *.")


def refused(error: BrokerError) -> HTTPException:
    """Return the HTTP error of a request that the broker rejects."""
    return HTTPException(400, f"{error}.")


def as_json(message: Message) -> dict[str, Any]:
    """Return a message as its JSON, with the names of the proto, and with fields that have their default."""
    return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def number(request: Request, name: str, default: int, *, most: int = NUMBER_MAX) -> int:
    """Return a number of the query, from 0 to ``most``. Raises ``HTTPException``."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most):
        raise HTTPException(400, f"{name} must be a number from 0 to {most}, not {text[:20]!r}.")
    return int(text)


def optional_number(request: Request, name: str, *, most: int = NUMBER_MAX) -> int | None:
    """Return a number of the query, None if it is absent or empty. Raises ``HTTPException``."""
    return number(request, name, 0, most=most) if request.query_params.get(name) else None


def query(**values: object) -> str:
    """Return a query of the values that are not None or empty."""
    return urlencode({name: value for name, value in values.items() if value is not None and value != ""})
