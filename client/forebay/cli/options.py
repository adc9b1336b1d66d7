"""Options that several commands share, and the client that they lead to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.output import Output
from forebay.cli.security import client_settings

if TYPE_CHECKING:
    from forebay.client import Client

DEFAULT_ENDPOINT: Final = "127.0.0.1:7461"
"""Where a broker listens unless told otherwise."""

Endpoint = Annotated[
    str,
    typer.Option(
        "--endpoint",
        "-e",
        envvar="FOREBAY_ENDPOINT",
        metavar="HOST:PORT",
        help="The broker; several brokers are separated by commas.",
    ),
]
"""``--endpoint``; the default is `DEFAULT_ENDPOINT`."""

OutputForm = Annotated[
    Output, typer.Option("--output", "-o", help="A table for people, or JSON for programs.", case_sensitive=False)
]
"""``-o``."""

SinkName = Annotated[str, typer.Argument(metavar="SINK", help="Name of the sink.", show_default=False)]
"""The sink that a command is about."""

Subscription = Annotated[str, typer.Option("--subscription", metavar="NAME", help="Subscription of the sink.")]
"""``--subscription``."""


@contextmanager
def connect(endpoint: str) -> Iterator[Client]:
    """A client of the broker at ``endpoint``, closed at the end. Connecting happens with the first call.

    TLS and token are those of the options before the command, or of the environment.
    """
    from forebay.client import Client

    endpoints = [part.strip() for part in endpoint.split(",") if part.strip()]
    with Client(endpoints if len(endpoints) > 1 else endpoint.strip(), settings=client_settings()) as client:
        yield client
