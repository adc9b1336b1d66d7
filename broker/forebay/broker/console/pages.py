"""Content of the pages: data for people and programs, made from the newest snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from google.protobuf.json_format import MessageToDict
from starlette.exceptions import HTTPException
from starlette.requests import Request

from forebay.broker.console.attention import LISTED_MAX, Need, needs
from forebay.broker.console.figures import BrokerFigures, SinkFigures
from forebay.broker.console.sampler import Sampler
from forebay.broker.core.access.principal import EVERY_SINK, Principal, Right
from forebay.broker.core.dead_letters.letters import Filter
from forebay.broker.core.errors import BrokerError
from forebay.broker.core.settings import SETTINGS, SinkSettings
from forebay.broker.rpc.buffer.peek import peek
from forebay.broker.rpc.connections import list_connections
from forebay.broker.rpc.sinks import convert
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.dead_letters.operations import DeadLetterOperations
from forebay.broker.runtime.resources.connections import Connections
from forebay.broker.runtime.sink.statistics import sink_state
from forebay.v1 import admin_service_pb2
from forebay.v1 import buffer_service_pb2 as pb

BUSIEST: Final = 10
"""Sinks on the overview."""

ON_A_PAGE: Final = 100
"""Sinks on a page of the list."""

RECORDS: Final = 50
"""Records on a page."""

CONNECTIONS: Final = 200
"""Connections on a page."""

LETTERS: Final = 1_000
"""Dead letters that are grouped."""

SHOWN: Final = 10
"""Dead letters of a group that are listed."""

ORDERS: Final = {
    "waiting": lambda one: (-one.waiting, one.name),
    "in": lambda one: (-one.rates.into, one.name),
    "out": lambda one: (-one.rates.out, one.name),
    "share": lambda one: (-one.share, one.name),
    "name": lambda one: one.name,
}
"""Orders of the list, by the word in the address."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its data, and how it is shown."""

    template: str
    title: str
    data: Any
    """Dataclass, or dictionary for JSON."""

    command: str
    """Command that prints the same."""

    json_path: str
    events_path: str
    """Empty for a page that is not updated."""

    shown: Any = None
    """Values of the template, if they are not the data."""


@dataclass(frozen=True, slots=True)
class SinkLine:
    """One sink in a list."""

    figures: SinkFigures
    into: tuple[float, ...]
    """Records per second of the last 15 minutes, the oldest first."""

    waiting: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """Data of the overview."""

    at_us: int
    broker: BrokerFigures
    waiting: int
    into_per_s: float
    out_per_s: float
    oldest_age_s: float | None
    """Of the sinks in ``busiest``."""

    needs: tuple[Need, ...]
    more_needs: int
    busiest: tuple[SinkLine, ...]
    into: tuple[float, ...]
    out: tuple[float, ...]
    waiting_history: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SinkList:
    """Data of the list of sinks."""

    at_us: int
    order: str
    first: int
    total: int
    sinks: tuple[SinkLine, ...]
    previous: str
    """Query of the page before; empty on the first one."""

    next: str


@dataclass(frozen=True, slots=True)
class Letter:
    """Position of one dead letter, and of its record in the sink."""

    partition: int
    offset: int
    origin_partition: int | None
    origin_offset: int | None
    attempts: int
    at_us: int


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Dead letters with the same error."""

    error: str
    count: int
    letters: tuple[Letter, ...]
    """The oldest ones."""


@dataclass(frozen=True, slots=True)
class LetterList:
    """Data of the dead letters of a sink."""

    sink: str
    count: int
    count_max: int
    """Number of dead letters above which the newer ones are not counted."""

    groups: tuple[LetterGroup, ...]


class Pages:
    """Pages of one broker. Used on its loop."""

    def __init__(self, broker: Broker, sampler: Sampler, endpoint: Callable[[], str], connections: Connections) -> None:
        self._broker = broker
        self._connections = connections
        self._sampler = sampler
        self._endpoint = endpoint

    @property
    def _at(self) -> str:
        return f"--endpoint {self._endpoint()}"

    async def overview(self, request: Request) -> Page:
        """Return the overview of the sinks that a principal may see."""
        snapshot = await self._sampler.current()
        sinks = _visible(snapshot.sinks, request.state.principal)
        busiest = await self._lines(sorted(sinks, key=ORDERS["waiting"])[:BUSIEST])
        found = needs(snapshot.broker, sinks)
        ages = [line.figures.oldest_age_s for line in busiest if line.figures.oldest_age_s is not None]
        whole = len(sinks) == len(snapshot.sinks)
        data = Overview(
            at_us=snapshot.at_us,
            broker=snapshot.broker,
            waiting=sum(one.waiting for one in sinks),
            into_per_s=sum(one.rates.into for one in sinks),
            out_per_s=sum(one.rates.out for one in sinks),
            oldest_age_s=max(ages, default=None),
            needs=tuple(found[:LISTED_MAX]),
            more_needs=max(0, len(found) - LISTED_MAX),
            busiest=tuple(busiest),
            into=tuple(snapshot.total.into) if whole else (),
            out=tuple(snapshot.total.out) if whole else (),
            waiting_history=tuple(snapshot.total.waiting) if whole else (),
        )
        command = f"forebay lag {self._at}"
        return Page("overview.html", "Overview", data, command, "/overview.json", "/events/overview")

    async def sinks(self, request: Request) -> Page:
        """Return a part of the list of sinks, in the requested order."""
        snapshot = await self._sampler.current()
        order = request.query_params.get("order", "waiting")
        if order not in ORDERS:
            raise HTTPException(400, f"order must be one of {', '.join(ORDERS)}.")
        first = _number(request, "first", 0)
        sinks = sorted(_visible(snapshot.sinks, request.state.principal), key=ORDERS[order])
        end = first + ON_A_PAGE
        data = SinkList(
            at_us=snapshot.at_us,
            order=order,
            first=first,
            total=len(sinks),
            sinks=tuple(await self._lines(sinks[first:end])),
            previous=urlencode({"order": order, "first": max(0, first - ON_A_PAGE)}) if first else "",
            next=urlencode({"order": order, "first": end}) if end < len(sinks) else "",
        )
        query = urlencode({"order": order, "first": first})
        return Page(
            "sinks.html", "Sinks", data, f"forebay lag {self._at}", f"/sinks.json?{query}", f"/events/sinks?{query}"
        )

    async def sink(self, request: Request) -> Page:
        """Return the state of one sink, partition by partition."""
        name = self._named(request, Right.VIEW)
        buffer = self._broker.sinks[name]
        snapshot = await self._sampler.current()
        message = await convert.stats(buffer, await sink_state(buffer), self._broker.clock.wall_us())
        data = {
            "stats": MessageToDict(
                message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            ),
            "settings": MessageToDict(convert.settings_message(buffer.settings), preserving_proto_field_name=True),
        }
        lines = await self._lines([one for one in snapshot.sinks if one.name == name])
        return Page(
            "sink.html",
            name,
            data,
            f"forebay lag {name} -p {self._at}",
            f"/sinks/{name}.json",
            f"/events/sinks/{name}",
            shown={"stats": message, "line": lines[0] if lines else None, "settings": _texts(buffer.settings)},
        )

    async def connections(self, request: Request) -> Page:
        """Return the connections and their streams; they need the right to view every sink."""
        if not request.state.principal.may(Right.VIEW, EVERY_SINK):
            raise HTTPException(403, "The connections need the right view to *.")
        wanted = admin_service_pb2.ListConnectionsRequest(
            page_size=CONNECTIONS, page_token=request.query_params.get("after", "")
        )
        try:
            found = list_connections(self._broker, self._connections, wanted)
        except BrokerError as refused:
            raise HTTPException(400, f"{refused}.") from refused
        data = MessageToDict(found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        query = f"?{urlencode({'after': wanted.page_token})}" if wanted.page_token else ""
        shown = {
            "connections": found.connections,
            "now_us": self._broker.clock.wall_us(),
            "total": sum(self._connections.counts.values()),
            "next": urlencode({"after": found.next_page_token}) if found.next_page_token else "",
        }
        return Page(
            "connections.html",
            "Connections",
            data,
            f"forebay connections {self._at}",
            f"/connections.json{query}",
            f"/events/connections{query}",
            shown=shown,
        )

    async def records(self, request: Request) -> Page:
        """Return records of one partition, from an offset on; the lowest unsettled one by default."""
        name = self._named(request, Right.REPLAY)
        partition = _number(request, "partition", 0)
        wanted = pb.PeekRequest(sink=name, partition=partition, max_records=RECORDS)
        if "offset" in request.query_params:
            wanted.offset = _number(request, "offset", 0)
        with self._broker.stream_memory.share() as memory:
            try:
                found = await peek(self._broker, wanted, memory)
            except BrokerError as refused:
                raise HTTPException(400, f"{refused}.") from refused
            data = MessageToDict(found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        buffer = self._broker.sinks[name]
        first = found.records[0].offset if found.records else wanted.offset
        query = urlencode({"partition": partition, "offset": first})
        shown = {
            "name": name,
            "partition": partition,
            "partitions": len(buffer.logs),
            "records": found.records,
            "gaps": found.gaps,
            "end": buffer.logs[partition].tail.next_offset,
            "earliest": buffer.logs[partition].earliest,
            "previous": max(buffer.logs[partition].earliest, first - RECORDS),
            "next": found.records[-1].offset + 1 if found.records else first,
        }
        command = f"forebay peek {name} --partition {partition} --offset {first} {self._at}"
        return Page(
            "records.html", f"Records of {name}", data, command, f"/sinks/{name}/records.json?{query}", "", shown=shown
        )

    async def letters(self, request: Request) -> Page:
        """Return the oldest dead letters of a sink, grouped by the words of the target."""
        name = self._named(request, Right.REPLAY)
        box = DeadLetterOperations(self._broker, name)
        try:
            found, _ = await box.list(Filter(), LETTERS, None)
        except BrokerError as refused:
            raise HTTPException(400, f"{refused}.") from refused
        groups: dict[str, list[Letter]] = {}
        for partition, letter in found:
            origin = letter.origin
            groups.setdefault(origin.error if origin is not None else letter.uncut, []).append(
                Letter(
                    partition,
                    letter.offset,
                    origin.partition if origin is not None else None,
                    origin.offset if origin is not None else None,
                    origin.attempts if origin is not None else 0,
                    origin.at_us if origin is not None else letter.accepted_at_us,
                )
            )
        ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
        data = LetterList(
            name,
            len(found),
            LETTERS,
            tuple(LetterGroup(error, len(letters), tuple(letters[:SHOWN])) for error, letters in ordered),
        )
        command = f"forebay dlq list {name} {self._at}"
        return Page("letters.html", f"Dead letters of {name}", data, command, f"/sinks/{name}/dead-letters.json", "")

    def _named(self, request: Request, right: Right) -> str:
        """Return the sink of a request.

        Raises ``HTTPException`` if it does not exist, or is not for the principal.
        """
        name: str = request.path_params["sink"]
        principal: Principal = request.state.principal
        if name not in self._broker.sinks or not principal.may(Right.VIEW, name):
            raise HTTPException(404, f"There is no sink {name!r} that you may see.")
        if not principal.may(right, name):
            raise HTTPException(403, f"The principal {principal.name} lacks the right {right} to {name!r}.")
        return name

    async def _lines(self, sinks: Sequence[SinkFigures]) -> list[SinkLine]:
        snapshot = await self._sampler.current()
        found: list[SinkLine] = []
        for figures in await self._sampler.aged(sinks):
            history = snapshot.histories.get(figures.name)
            into = tuple(history.into) if history is not None else ()
            found.append(SinkLine(figures, into, tuple(history.waiting) if history is not None else ()))
        return found


def _texts(settings: SinkSettings) -> dict[str, str]:
    """Return the settings as people write them."""
    return {one.public_name: one.text(getattr(settings, one.name)) for one in SETTINGS}


def _visible(sinks: Sequence[SinkFigures], principal: Principal) -> list[SinkFigures]:
    return [one for one in sinks if principal.may(Right.VIEW, one.name)]


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and int(text[:20]) < 1 << 63 and len(text) < 20):
        raise HTTPException(400, f"{name} must be a number, not {text[:20]!r}.")
    return int(text)
