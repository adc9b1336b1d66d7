"""`forebay dlq ...`: lists, redrives and purges dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from forebay.cli.command import Commands
from forebay.cli.completion import subscription_names
from forebay.cli.exits import ExitCode
from forebay.cli.manage.confirmation import DryRun, Yes, confirm, preview
from forebay.cli.operate.progress import shown_count, shows_progress
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, connect
from forebay.cli.output import Column, Output, text_of, write_message, write_result, write_table, write_values
from forebay.cli.report import CommandFailed
from forebay.cli.times import parse_time
from forebay.state.attention import DEAD_LETTERS
from forebay.state.numbers import counted

if TYPE_CHECKING:
    from forebay.client import Client
    from forebay.client.values.dead_letters import DeadLetter, DeadLetterFilter

dlq_app = Commands(
    help="Manage dead letters: records that could not be delivered.",
    example="forebay dlq list orders\nforebay dlq redrive orders --error timeout --dry-run",
)
SHOWN_MAX: Final = 80
COUNTED_MAX: Final = 100_000
"""Dead letters that a preview counts."""
CAUSES_MAX: Final = 50
"""Causes that a preview names."""

Reason = Annotated[
    str | None,
    typer.Option(metavar="REJECTED|MAX_ATTEMPTS", help="Only dead letters with this reason.", case_sensitive=False),
]
ErrorText = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only dead letters whose error contains TEXT.")
]
ExactError = Annotated[
    str | None, typer.Option("--error-equals", metavar="TEXT", help="Only dead letters whose error is TEXT.")
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
    str | None,
    typer.Option(
        "--subscription",
        metavar="NAME",
        help="Only dead letters of this subscription.",
        autocompletion=subscription_names,
    ),
]


@dlq_app.command("list", example="forebay dlq list orders --since 1d")
def list_dead_letters(
    sink: SinkName,
    reason: Reason = None,
    error: ErrorText = None,
    error_equals: ExactError = None,
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
    wanted = _filter(reason, error, error_equals, partition, first, last, since, until, subscription)
    with connect(endpoint, sink) as client:
        letters = list(islice(client.dead_letters.list(sink, **wanted), count + 1))
    more = len(letters) > count
    letters = letters[:count]
    title = f"{'first ' if more else ''}{counted(len(letters), 'dead letter')} of {sink}"
    write_values(letters, output, title, COLUMNS, optional=OPTIONAL)
    if more:
        write_message(f"forebay: there are more than {counted(count, 'dead letter')}; raise --count to show them")


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
OPTIONAL: Final = ("attempts", "reason", "value", "rejected")
"""Columns that a narrow terminal hides, the first ones first."""


@dlq_app.command(example="forebay dlq redrive orders --error timeout")
def redrive(
    sink: SinkName,
    reason: Reason = None,
    error: ErrorText = None,
    error_equals: ExactError = None,
    partition: Partition = None,
    first: First = None,
    last: Last = None,
    since: Since = None,
    until: Until = None,
    subscription: OfSubscription = None,
    dry_run: DryRun = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Append dead letters to their sink again: all, or the selected ones."""
    wanted = _filter(reason, error, error_equals, partition, first, last, since, until, subscription)
    with connect(endpoint, sink) as client:
        if dry_run:
            _show_selected(_selected(client, sink, wanted), f"redrive {{}} of {sink}", output)
            return
        with shown_count(f"redrive {sink}", None if wanted else _total(client, sink)) as advance:
            redriven = client.dead_letters.redrive(sink, on_progress=advance, **wanted)
    write_result({"redriven": redriven}, f"redrove {counted(redriven, 'record')} of {sink}", output)


@dlq_app.command(example="forebay dlq purge orders --reason REJECTED --dry-run")
def purge(
    sink: SinkName,
    reason: Reason = None,
    error: ErrorText = None,
    error_equals: ExactError = None,
    partition: Partition = None,
    first: First = None,
    last: Last = None,
    since: Since = None,
    until: Until = None,
    subscription: OfSubscription = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All dead letters; required without another filter.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Drop dead letters permanently."""
    wanted = _filter(reason, error, error_equals, partition, first, last, since, until, subscription)
    if not wanted and not everything:
        raise CommandFailed("no dead letters are selected: pass a filter, or --all", ExitCode.USAGE)
    with connect(endpoint, sink) as client:
        if dry_run:
            _show_selected(_selected(client, sink, wanted), f"drop {{}} of {sink}", output)
            return
        if yes:
            purged = client.dead_letters.purge(sink, **wanted)
        else:
            incarnation, ends = _extent(client, sink)
            selected = _selected(client, sink, wanted, ends)
            confirm(f"drop {selected.text} of {sink} permanently", yes=yes, output=output)
            purged = client.dead_letters.purge(sink, end_offsets=ends, incarnation=incarnation, **wanted)
    write_result({"purged": purged}, f"purged {counted(purged, 'dead letter')} of {sink}", output)


@dataclass(frozen=True, slots=True)
class _Selected:
    """Dead letters that a filter selects now."""

    count: int
    is_complete: bool
    """False if there are more than were counted."""

    uncut: int
    """Those that cannot be redriven, because their records were not extracted."""

    causes: Mapping[str, int]
    """Number by the error of the target."""

    @property
    def text(self) -> str:
        """Number as text."""
        number = counted(self.count, "dead letter")
        return number if self.is_complete else f"more than {number}"


def _extent(client: Client, sink: str) -> tuple[str, Mapping[int, int]]:
    """Return incarnation and end by partition of a dead-letter sink; of an absent one, nothing."""
    from forebay.client.errors import SinkNotFound

    try:
        stats = client.sinks.stats(sink.removesuffix(DEAD_LETTERS) + DEAD_LETTERS)
    except SinkNotFound:  # a sink without dead letters; the list tells whether there is the sink itself
        return "", {}
    return stats.incarnation, {one.partition: one.next_offset for one in stats.partitions}


def _total(client: Client, sink: str) -> int | None:
    """Return the number of dead letters for a bar, also of those not extracted; None without one."""
    from forebay.client.errors import SinkNotFound

    if not shows_progress():
        return None
    try:
        return client.sinks.stats(sink.removesuffix(DEAD_LETTERS) + DEAD_LETTERS).pending()
    except SinkNotFound:  # a sink without dead letters; the redrive tells whether there is the sink itself
        return None


def _selected(client: Client, sink: str, wanted: DeadLetterFilter, ends: Mapping[int, int] | None = None) -> _Selected:
    """Return the dead letters that a filter selects; with ``ends`` those below these offsets."""
    causes: Counter[str] = Counter()
    count = uncut = 0
    for letter in client.dead_letters.list(sink, **wanted):
        if ends is not None and letter.offset >= ends.get(letter.partition, 0):
            continue
        if count == COUNTED_MAX:
            return _Selected(count, False, uncut, causes)
        count += 1
        uncut += bool(letter.uncut)
        cause = letter.error[:SHOWN_MAX] or letter.reason.name
        causes[cause if cause in causes or len(causes) < CAUSES_MAX else "others"] += 1
    return _Selected(count, True, uncut, causes)


def _show_selected(found: _Selected, effect: str, output: Output) -> None:
    """Write the result of a dry run: the number, and the causes with the most."""
    facts = {"count": found.count, "complete": found.is_complete, "not_extracted": found.uncut}
    ranked = sorted(found.causes.items(), key=lambda one: -one[1])
    preview(effect.format(found.text), {**facts, "causes": dict(ranked)}, output)
    if output is Output.TABLE and ranked:
        write_table("", ("dead letters", "cause"), [(number, cause) for cause, number in ranked])


def _filter(
    reason: str | None,
    error: str | None,
    error_equals: str | None,
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
        "error": error_equals,
        "partition": partition,
        "first_offset": first,
        "last_offset": last,
        "from_time": since and parse_time(since),
        "until_time": until and parse_time(until),
        "subscription": subscription,
    }
    return cast("DeadLetterFilter", {name: value for name, value in given.items() if value is not None})
