"""`forebay top`: the live screen, and its figures as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.inspect.lag import entries
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import Output, write_json
from forebay.cli.quantities import duration
from forebay.cli.report import CommandFailed
from forebay.cli.security import client_settings

if TYPE_CHECKING:
    from forebay.cli.top.figures import Figures
    from forebay.client import Client

CALL_TIMEOUT_S: Final = 5.0
"""Time limit of a call, which is not retried: the next update asks again."""

CLOCK_S: Final = 1.0
"""Time after which the screen is drawn again without a key or new figures."""


def top(
    interval_s: Annotated[
        float,
        typer.Option("--interval", metavar="DURATION", parser=duration(0.2, 3600), help="Time between updates."),
    ] = 2.0,
    count: Annotated[
        int | None, typer.Option("--count", "-n", help="Number of updates with -o json; default: no end.", min=1)
    ] = None,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Watch sinks, deliveries and connections on a live screen, the ones that need attention first.

    Keys: 1, 2, 3 or Tab choose the view; arrows choose a row and Enter opens it; s chooses the column of the order, r
    reverses it; / filters; p pauses; q ends. A broker that does not answer is named on the screen, and asked again.
    With -o json each update is one JSON object on a line.
    """
    if output is Output.TABLE and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandFailed(
            "the screen needs a terminal", ExitCode.USAGE, advice="use forebay status, forebay lag, or -o json"
        )
    from forebay.cli.top.figures import collect
    from forebay.client import RetryPolicy

    quick = replace(client_settings(), call_timeout_s=CALL_TIMEOUT_S, retry=RetryPolicy(tries_max=1))
    with connect(endpoint, settings=quick) as client:
        if output is Output.JSON:
            _write(client, interval_s, count)
            return
        _watch(lambda: collect(client), interval_s, endpoint)


def _write(client: Client, interval_s: float, count: int | None) -> None:
    from forebay.cli.top.figures import collect

    number = 0
    while count is None or number < count:
        if number:
            time.sleep(interval_s)
        write_json(facts(collect(client)))
        number += 1


def facts(figures: Figures) -> dict[str, Any]:
    """Return the figures of one update as an object."""
    return {
        "at": figures.at,
        "brokers": figures.brokers,
        "deliveries": [entry for stats in figures.sinks for entry in entries(stats)],
        "connections": figures.connections,
    }


def _watch(collect: Callable[[], Figures], interval_s: float, endpoint: str) -> None:
    """Draw until the user ends it."""
    from rich.console import Console
    from rich.live import Live

    from forebay.cli.top.poller import Poller
    from forebay.cli.top.screen import State, pressed, rendered
    from forebay.cli.top.terminal import raw_keys

    console, state = Console(), State()
    with (
        raw_keys() as keys,
        Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live,
        Poller(collect, interval_s, keys.wake) as poller,
    ):
        shown = poller.sample
        while not state.is_over:
            shown = shown if state.is_paused else poller.sample
            width, height = console.size
            screen = rendered(shown, state, endpoint=endpoint, now=datetime.now(UTC), width=width, height=height)
            live.update(screen, refresh=True)
            for key in keys.wait(CLOCK_S):
                state = pressed(state, key, shown, width)
