"""`forebay info`: version, state and limits of a broker."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime

from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import Output, plain, write_json, write_table


def info(endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """Show the broker's version, state and limits."""
    with connect(endpoint) as client:
        facts = client.info()
    if output is Output.JSON:
        write_json(facts)
        return
    rows = [(field.name.replace("_", " "), _cell(getattr(facts, field.name))) for field in fields(facts)]
    write_table(f"broker at {endpoint}", ("", ""), rows)


def _cell(value: object) -> object:
    return value if isinstance(value, datetime) else str(plain(value))
