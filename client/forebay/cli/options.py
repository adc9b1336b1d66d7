"""Options that several commands share, and the client that they configure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.completion import sink_names, subscription_names
from forebay.cli.contact import reach
from forebay.cli.output import Output
from forebay.cli.security import client_settings

if TYPE_CHECKING:
    from forebay.client import Client, ClientSettings

DEFAULT_ENDPOINT: Final = "127.0.0.1:7461"
"""Default address of a broker."""

Endpoint = Annotated[
    str,
    typer.Option(
        "--endpoint",
        "-e",
        envvar="FOREBAY_ENDPOINT",
        metavar="HOST:PORT",
        help="Address of the broker, by default with port 7461; separate several with commas.",
    ),
]
"""``--endpoint``; the default is `DEFAULT_ENDPOINT`."""

OutputForm = Annotated[
    Output, typer.Option("--output", "-o", help="Output format: table or JSON.", case_sensitive=False)
]
"""``-o``."""

SinkName = Annotated[
    str, typer.Argument(metavar="SINK", help="Name of the sink.", show_default=False, autocompletion=sink_names)
]
"""Sink that a command applies to."""

Subscription = Annotated[
    str,
    typer.Option("--subscription", metavar="NAME", help="Subscription of the sink.", autocompletion=subscription_names),
]
"""``--subscription``."""


@contextmanager
def connect(
    endpoint: str, sink: str | None = None, *, is_needed: bool = True, settings: ClientSettings | None = None
) -> Iterator[Client]:
    """Open a client of the broker at ``endpoint`` after its answer; of several, that of ``sink``, or all.

    TLS and token come from the options before the command, or from the environment. Raises `BrokerUnreachable`, unless
    no broker is needed. ``settings`` replace those that `client_settings` returns.
    """
    from forebay.client import Client

    chosen = settings if settings is not None else client_settings()
    endpoints = [part.strip() for part in endpoint.split(",") if part.strip()]
    with Client(endpoints if len(endpoints) > 1 else endpoint.strip(), settings=chosen) as client:
        if is_needed:
            reach(client, sink)
        yield client
