"""Views of `forebay top`: the rows of each, its columns, and the order of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from forebay.cli.inspect.lag_lines import STYLES, Line, partition_lines, sink_line, subscription_lines
from forebay.cli.output import Styled, bytes_text, seconds_text
from forebay.state.flow import ORDER
from forebay.state.numbers import counted, rate

if TYPE_CHECKING:
    from forebay.cli.top.figures import Figures
    from forebay.client import ConnectedStream


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a view."""

    name: str
    cell: Callable[[Any], object]
    """Cell of a row."""

    key: Callable[[Any], Any]
    """Value by which the rows are sorted."""

    least_width: int = 0
    """Width of the terminal from which on the column is shown."""

    is_text: bool = False
    """Aligned to the left."""

    is_cut: bool = False
    """Cut with an ellipsis where the terminal is too narrow; the others are always whole."""


@dataclass(frozen=True, slots=True)
class View:
    """One view."""

    title: str
    rows: Callable[[Figures, str], Sequence[Any]]
    """Rows; the second argument is the name that the view is about, empty for all."""

    columns: Sequence[Column]
    name_of: Callable[[Any], str]
    """Identity of a row, by which it stays selected."""

    text_of: Callable[[Any], str]
    """Text that a filter is compared with."""

    below: str = ""
    """View that a row opens; empty for none."""

    opens: Callable[[Any], str] = str
    """Name that the view below is about."""

    order: str = ""
    """Column of the first order."""


@dataclass(frozen=True, slots=True)
class StreamRow:
    """Open stream, or a connection without one."""

    peer: str
    stream: ConnectedStream | None
    open_calls: int
    opened_at: datetime | None
    at: datetime

    @property
    def place(self) -> str:
        """Sink, with the subscription of a consumer."""
        if self.stream is None:
            return ""
        return f"{self.stream.sink}/{self.stream.subscription}" if self.stream.subscription else self.stream.sink

    @property
    def call(self) -> str:
        """Name of the stream."""
        if self.stream is not None:
            return self.stream.method
        return counted(self.open_calls, "call") if self.open_calls else "idle"

    @property
    def age_s(self) -> float:
        """Time since it was opened."""
        since = self.stream.opened_at if self.stream is not None else self.opened_at
        return max(0.0, (self.at - since).total_seconds()) if since is not None else 0.0

    def number(self, name: str) -> float:
        """Return a number of the stream; 0 without one."""
        return float(getattr(self.stream, name)) if self.stream is not None else 0.0


def _sinks(figures: Figures, of: str) -> list[Line]:
    return [sink_line(stats) for stats in figures.sinks]


def _deliveries(figures: Figures, of: str) -> list[Line]:
    return [line for stats in figures.sinks for line in subscription_lines(stats)]


def _partitions(figures: Figures, of: str) -> list[Line]:
    return [line for stats in figures.sinks if stats.name == of for line in partition_lines(stats)]


def _streams(figures: Figures, of: str) -> list[StreamRow]:
    now = figures.brokers[0].now or figures.at  # by the clock of a broker, as the beginning of each
    return [
        StreamRow(one.peer, stream, one.open_calls, one.opened_at, now)
        for one in figures.connections
        for stream in (one.streams or (None,))
        if of in {"", one.peer}
    ]


def _empty_s(line: Line) -> float:
    return 0.0 if not line.records else float("inf") if line.empty_s is None else line.empty_s


def _empty_text(line: Line) -> str:
    if not line.records:
        return ""
    return "never" if line.empty_s is None else seconds_text(line.empty_s)


def _name(line: Line) -> str:
    return line.stats.name


def _subscription(line: Line) -> str:
    return f"{line.stats.name}/{line.subscription.name}"


def _partition(line: Line) -> str:
    return f"{line.subscription.name}:{line.lanes[0].partition}"


def _reason(line: Line) -> str:
    return line.reason


_STATE: Final = Column(
    "state", lambda line: Styled(line.flow, STYLES[line.flow]), lambda line: ORDER[line.flow], is_text=True
)
_WAITING: Final = (
    Column("waiting", lambda line: line.records, lambda line: line.records),
    Column("oldest", lambda line: seconds_text(line.age_s) if line.records else "", lambda line: line.age_s),
)
_RATES: Final = (
    Column("in/s", lambda line: rate(line.stats.appended_per_s), lambda line: line.stats.appended_per_s),
    Column("out/s", lambda line: rate(line.subscription.settled_per_s), lambda line: line.subscription.settled_per_s),
    Column("empty in", _empty_text, _empty_s),
)
_MORE: Final = (
    Column("used", lambda line: f"{line.stats.limit_used:.0%}", lambda line: line.stats.limit_used, 90),
    Column("size", lambda line: bytes_text(line.bytes), lambda line: line.bytes, 110),
    Column("in flight", lambda line: line.in_flight, lambda line: line.in_flight, 110),
    Column("consumers", lambda line: line.subscription.consumers, lambda line: line.subscription.consumers, 120),
    Column("reason", _reason, _reason, 130, is_text=True, is_cut=True),
)

VIEWS: Final = {
    "sinks": View(
        "sinks",
        _sinks,
        (Column("sink", _name, _name, is_text=True, is_cut=True), _STATE, *_WAITING, *_RATES, *_MORE),
        _name,
        _name,
        below="partitions",
        opens=_name,
        order="state",
    ),
    "deliveries": View(
        "deliveries",
        _deliveries,
        (
            Column("delivery", _subscription, _subscription, is_text=True, is_cut=True),
            _STATE,
            *_WAITING,
            *_RATES[1:],
            *_MORE,
        ),
        _subscription,
        lambda line: f"{_subscription(line)} {line.reason}",
        below="partitions",
        opens=_name,
        order="state",
    ),
    "connections": View(
        "connections",
        _streams,
        (
            Column("peer", lambda row: row.peer, lambda row: row.peer, is_text=True, is_cut=True),
            Column("call", lambda row: row.call, lambda row: row.call, is_text=True),
            Column("sink", lambda row: row.place, lambda row: row.place, is_text=True, is_cut=True),
            Column("rate", lambda row: rate(row.number("records_per_s")), lambda row: row.number("records_per_s")),
            Column("records", lambda row: int(row.number("records")), lambda row: row.number("records")),
            Column("in flight", lambda row: int(row.number("in_flight")), lambda row: row.number("in_flight"), 90),
            Column(
                "held", lambda row: bytes_text(int(row.number("held_bytes"))), lambda row: row.number("held_bytes"), 100
            ),
            Column("for", lambda row: seconds_text(row.age_s), lambda row: row.age_s, 110),
            Column(
                "client",
                lambda row: _of(row, "client_id"),
                lambda row: _of(row, "client_id"),
                130,
                is_text=True,
                is_cut=True,
            ),
            Column(
                "as",
                lambda row: _of(row, "principal"),
                lambda row: _of(row, "principal"),
                140,
                is_text=True,
                is_cut=True,
            ),
        ),
        lambda row: f"{row.peer} {row.call} {row.place} {_of(row, 'client_id')}",
        lambda row: f"{row.peer} {row.call} {row.place} {_of(row, 'client_id')} {_of(row, 'principal')}",
        below="streams",
        opens=lambda row: row.peer,
        order="rate",
    ),
}
"""Views that a key selects, in their order."""

BELOW: Final = {
    "partitions": View(
        "partitions",
        _partitions,
        (
            Column(
                "partition", _partition, lambda line: (line.subscription.name, line.lanes[0].partition), is_text=True
            ),
            _STATE,
            *_WAITING,
            Column("in flight", lambda line: line.in_flight, lambda line: line.in_flight),
            Column("size", lambda line: bytes_text(line.bytes), lambda line: line.bytes),
            Column("reason", _reason, _reason, 100, is_text=True, is_cut=True),
        ),
        _partition,
        lambda line: f"{_partition(line)} {line.reason}",
        order="partition",
    ),
    "streams": View(
        "streams",
        _streams,
        VIEWS["connections"].columns,
        VIEWS["connections"].name_of,
        VIEWS["connections"].text_of,
        order="rate",
    ),
}
"""Views that a row of another one opens."""


def _of(row: StreamRow, name: str) -> str:
    return str(getattr(row.stream, name)) if row.stream is not None else ""
