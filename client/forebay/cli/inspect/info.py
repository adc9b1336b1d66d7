"""`forebay info`: version, state and limits of a broker."""

from __future__ import annotations

from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import Output, plain, write_json, write_table


def info(endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """Show the broker's version, state and limits."""
    with connect(endpoint) as client:
        facts = client.info()
    if output is Output.JSON:
        write_json(facts)
        return
    shown = plain(facts)
    assert isinstance(shown, dict), "a dataclass becomes an object"
    write_table(
        f"broker at {endpoint}", ("", ""), [(name.replace("_", " "), str(value)) for name, value in shown.items()]
    )
