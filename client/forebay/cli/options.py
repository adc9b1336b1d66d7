"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.completion import sink_names, subscription_names
from forebay.cli.contact import DEFAULT_ENDPOINT, connect
from forebay.cli.output import Output

__all__ = [
    "DEFAULT_ENDPOINT",
    "Endpoint",
    "OutputForm",
    "SinkName",
    "Subscription",
    "connect",
]

Endpoint = Annotated[
    str,
    typer.Option(
        "--endpoint",
        "-e",
        envvar="FOREBAY_ENDPOINT",
        metavar="HOST:PORT",
        help="Address of the broker, by default with port 7461; separate several with commas. forebay://HOST:PORT,... "
        "names members of a fleet of shards.",
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
