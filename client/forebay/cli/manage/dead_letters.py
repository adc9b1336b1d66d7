"""`forebay dlq ...`: lists, redrives and purges dead letters."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from forebay.cli.command import Commands
from forebay.cli.exits import ExitCode
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, connect
from forebay.cli.output import Column, Output, text_of, write_result, write_values
from forebay.cli.report import CommandFailed
from forebay.cli.times import parse_time

if TYPE_CHECKING:
    from forebay.client.values.dead_letters import DeadLetter, DeadLetterFilter

dlq_app = Commands(no_args_is_help=True, help="Manage dead letters: records that could not be delivered.")
SHOWN_MAX = 80

Reason = Annotated[
    str | None,
    typer.Option(metavar="REJECTED|MAX_ATTEMPTS", help="Only dead letters with this reason.", case_sensitive=False),
]
ErrorText = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only dead letters whose error contains TEXT.")
]
Partition = Annotated[
    int | None, typer.Option("--partition", "-p", help="Only dead letters from this partition.", min=0)
]
First = Annotated[int | None, typer.Option("--first", help="Only dead letters from this offset on.", min=0)]
Last = Annotated[int | None, typer.Option("--last", help="Only dead letters up to this offset.", min=0)]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only dead letters since this time; 2d is two days ago.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only dead letters before this time.")]
OfSubscription = Annotated[
    str | None, typer.Option("--subscription", metavar="NAME", help="Only dead letters of this subscription.")
]


@dlq_app.command("list")
def list_dead_letters(
    sink: SinkName,
    reason: Reason = None,
    error: ErrorText = None,
    partition: Partition = None,
    first: First = None,
    last: Last = None,
    since: Since = None,
    until: Until = None,
    subscription: OfSubscription = None,
    count: Annotated[int, typer.Option("--count", "-n", help="Maximum number of dead letters.", min=1)] = 100,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """List the unsettled dead letters."""
    wanted = _filter(reason, error, partition, first, last, since, until, subscription)
    with connect(endpoint, sink) as client:
        letters = list(islice(client.dead_letters.list(sink, **wanted), count))
    write_values(letters, output, f"{len(letters)} dead letters of {sink}", COLUMNS)


def _shown(letter: DeadLetter) -> str:
    return (f"not extracted: {letter.uncut}" if letter.uncut else text_of(letter.record.value))[:SHOWN_MAX]


COLUMNS: Final[dict[str, Column[DeadLetter]]] = {
    "partition": "origin_partition",
    "offset": "origin_offset",
    "rejected": "time",
    "reason": "reason",
    "attempts": "attempts",
    "error": lambda letter: letter.error[:SHOWN_MAX],
    "value": _shown,
}


@dlq_app.command()
def redrive(
    sink: SinkName,
    reason: Reason = None,
    error: ErrorText = None,
    partition: Partition = None,
    first: First = None,
    last: Last = None,
    since: Since = None,
    until: Until = None,
    subscription: OfSubscription = None,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Append dead letters to their sink again: all, or the selected ones."""
    wanted = _filter(reason, error, partition, first, last, since, until, subscription)
    with connect(endpoint, sink) as client:
        redriven = client.dead_letters.redrive(sink, **wanted)
    write_result({"redriven": redriven}, f"redrove {redriven:,} records of {sink}", output)


@dlq_app.command()
def purge(
    sink: SinkName,
    reason: Reason = None,
    error: ErrorText = None,
    partition: Partition = None,
    first: First = None,
    last: Last = None,
    since: Since = None,
    until: Until = None,
    subscription: OfSubscription = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All dead letters; required without another filter.")
    ] = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Drop dead letters permanently."""
    wanted = _filter(reason, error, partition, first, last, since, until, subscription)
    if not wanted and not everything:
        raise CommandFailed("no dead letters are selected: pass a filter, or --all", ExitCode.USAGE)
    with connect(endpoint, sink) as client:
        purged = client.dead_letters.purge(sink, **wanted)
    write_result({"purged": purged}, f"purged {purged:,} dead letters of {sink}", output)


def _filter(
    reason: str | None,
    error: str | None,
    partition: int | None,
    first: int | None,
    last: int | None,
    since: str | None,
    until: str | None,
    subscription: str | None,
) -> DeadLetterFilter:
    given = {
        "reason": reason,
        "error_contains": error,
        "partition": partition,
        "first_offset": first,
        "last_offset": last,
        "from_time": since and parse_time(since),
        "until_time": until and parse_time(until),
        "subscription": subscription,
    }
    return cast("DeadLetterFilter", {name: value for name, value in given.items() if value is not None})
