"""`forebay info`: version, state and limits of a broker."""

from __future__ import annotations

from dataclasses import fields

from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import Output, bytes_text, write_json, write_table


def info(endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """Show the broker's version, state and limits."""
    with connect(endpoint) as client:
        facts = client.info()
    if output is Output.JSON:
        write_json(facts)
        return
    rows = [(field.name.replace("_", " "), _cell(field.name, getattr(facts, field.name))) for field in fields(facts)]
    write_table(f"broker at {endpoint}", ("", ""), rows)


def _cell(name: str, value: object) -> object:
    if isinstance(value, int) and "bytes" in name.split("_"):
        return bytes_text(value)
    return "; ".join(map(str, value)) if isinstance(value, tuple) else value
