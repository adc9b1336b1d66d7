"""`forebay realtime ...`: switches the serving of readers from memory, and shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.command import Commands
from forebay.cli.completion import sink_names
from forebay.cli.inspect.sinks import stats_of
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import Column, Output, bytes_text, write_json, write_line, write_values

if TYPE_CHECKING:
    from forebay.client import SinkStats

realtime_app = Commands(
    help="Serve readers at the head from memory, or from the store only.",
    example="forebay realtime status\nforebay realtime off orders",
)

SinkOrBroker = Annotated[
    str,
    typer.Argument(
        metavar="[SINK]",
        help="Name of the sink; default: the whole broker.",
        show_default=False,
        autocompletion=sink_names,
    ),
]


@realtime_app.command(example="forebay realtime on orders")
def on(sink: SinkOrBroker = "", endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """Serve readers at the head from memory. The choice survives a restart."""
    _switch(True, sink, endpoint, output)


@realtime_app.command(example="forebay realtime off")
def off(sink: SinkOrBroker = "", endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """Serve all readers from the store, and free the memory. The choice survives a restart."""
    _switch(False, sink, endpoint, output)


@realtime_app.command(example="forebay realtime reset orders")
def reset(sink: SinkOrBroker = "", endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """Return the broker to its setting `realtime`, or a sink to its default."""
    _switch(None, sink, endpoint, output)


@realtime_app.command(example="forebay realtime status")
def status(sink: SinkOrBroker = "", endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """Show the switch of the broker, and the memory and the readers of its sinks."""
    with connect(endpoint, sink or None) as client:
        broker = client.info()
        sinks = stats_of(client, sink or None)
    if output is Output.JSON:
        write_json(
            {
                "realtime": broker.realtime,
                "chosen": broker.realtime_chosen,
                "failure": broker.realtime_failure,
                "tail_bytes": broker.tail_bytes,
                "tail_bytes_max": broker.tail_bytes_max,
                "sinks": [{"sink": one.name, "realtime": one.realtime, "tail_bytes": one.tail_bytes} for one in sinks],
            }
        )
        return
    origin = "chosen" if broker.realtime_chosen else "its setting"
    columns: dict[str, Column[SinkStats]] = {
        "sink": "name",
        "realtime": lambda one: _word(one.realtime),
        "memory": lambda one: bytes_text(one.tail_bytes),
        "memory readers": lambda one: _readers(one, "REALTIME"),
        "store readers": lambda one: _readers(one, "CATCH_UP"),
    }
    write_values(sinks, output, f"broker: {_word(broker.realtime)} ({origin})", columns)
    if broker.realtime_failure:
        write_line(f"it failed and is tried again: {broker.realtime_failure}")


def _readers(stats: SinkStats, mode: str) -> int:
    return sum(part.mode == mode for each in stats.subscriptions for part in each.partitions)


def _switch(enabled: bool | None, sink: str, endpoint: str, output: Output) -> None:
    with connect(endpoint, sink or None) as client:
        state = client.realtime.set(enabled, sink=sink)
    if output is Output.JSON:
        write_json({"sink": sink or None, "realtime": state.enabled, "broker": state.broker_enabled})
        return
    write_line(f"realtime is {_word(state.enabled)} for {sink or 'the broker'}")
    if sink and not state.broker_enabled:
        write_line("it is off for the whole broker: `forebay realtime on` switches it on")


def _word(enabled: bool) -> str:
    return "on" if enabled else "off"
