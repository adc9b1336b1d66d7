"""`forebay contract`: compares a running broker with the wire contract."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import Output, Styled, seconds_text, write_json, write_message, write_table
from forebay.cli.quantities import duration
from forebay.cli.report import CommandFailed
from forebay.cli.security import client_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forebay.contract import Check, Result

TIME_LIMIT_S: Final = 120.0
COLUMNS: Final = ("area", "check", "result", "time", "why")
STYLES: Final = {"ok": "green", "failed": "bold red", "denied": "yellow", "not run": "yellow"}


def contract(
    area: Annotated[
        list[str] | None,
        typer.Option("--area", metavar="AREA", help="Only the checks of this area. Repeatable; default: all."),
    ] = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Beginning of the names of the sinks that the checks create.")
    ] = "contract-",
    time_limit: Annotated[
        float,
        typer.Option(metavar="DURATION", parser=duration(1, 3_600), help="Time limit of all checks together."),
    ] = TIME_LIMIT_S,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Check that a running broker obeys the wire contract.

    Each check creates sinks of its own and deletes them; nothing else on the broker is touched. The caller needs the
    rights manage, publish, consume and replay to the sinks of the prefix.
    """
    from forebay.contract import run

    checks = _chosen(area or [])
    with connect(endpoint) as client:
        if len(client.endpoints) != 1:
            raise CommandFailed("one broker at a time: name one endpoint", ExitCode.USAGE)
        [address] = client.endpoints
        version = client.info(address).version
    found = []
    for result in run(address, client_settings(), checks, time_limit_s=time_limit, prefix=prefix):
        found.append(result)
        if output is Output.TABLE and result.outcome != "ok":
            write_message(f"{result.outcome}: {result.area}: {result.check}")
    if output is Output.JSON:
        write_json({"endpoint": address, "version": version, "counts": _counts(found), "checks": found})
    else:
        write_table(f"wire contract of {address}, version {version}", COLUMNS, [_row(one) for one in found])
    _conclude(found)


def _chosen(areas: Sequence[str]) -> list[Check]:
    """Return the checks of these areas, or all."""
    from forebay.contract import AREAS, CHECKS

    if unknown := [area for area in areas if area not in AREAS]:
        raise CommandFailed(f"--area {unknown[0]!r}: must be one of {', '.join(AREAS)}", ExitCode.USAGE)
    return [check for check in CHECKS if not areas or check.area in areas]


def _row(result: Result) -> tuple[object, ...]:
    outcome = Styled(result.outcome, STYLES[result.outcome])
    return (result.area, result.check, outcome, seconds_text(result.seconds), result.detail)


def _counts(found: Sequence[Result]) -> dict[str, int]:
    counts = Counter(result.outcome for result in found)
    return {outcome.replace(" ", "_"): counts[outcome] for outcome in STYLES}  # type: ignore[index]  # its text


def _conclude(found: Sequence[Result]) -> None:
    """Write the sum, or raise `CommandFailed` with it unless every check is OK."""
    counts = _counts(found)
    text = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in counts.items() if count)
    if counts["failed"] or counts["not_run"]:
        raise CommandFailed(f"the broker does not obey the wire contract, or not in time: {text}", reason="CONTRACT")
    if counts["denied"]:
        raise CommandFailed(
            f"rights are missing: {text}",
            ExitCode.REFUSED,
            reason="PERMISSION_DENIED",
            advice="grant manage, publish, consume and replay to the sinks of the prefix",
        )
    write_message(f"forebay: {text}")
