"""`forebay status`: one screen about a broker, with an exit code for scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.inspect.lag_lines import Line, sink_line
from forebay.cli.inspect.sinks import listed
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import Output, Styled, bytes_text, seconds_text, write_json, write_line, write_table
from forebay.cli.times import time_text
from forebay.state.attention import DEAD_LETTERS, Need, Severity, needs
from forebay.state.flow import seconds_to_full
from forebay.state.numbers import rate

if TYPE_CHECKING:
    from forebay.client import BrokerInfo, Client, SinkStats

LISTED_MAX: Final = 10
"""Sentences on the screen; the rest are counted."""

STYLES: Final[Mapping[Severity, str]] = {
    Severity.CRITICAL: "bold red",
    Severity.WARNING: "yellow",
    Severity.NOTICE: "dim",
}


@dataclass(frozen=True, slots=True)
class BrokerState:
    """Facts of a broker, also for the list of what needs attention."""

    endpoint: str
    state: str
    """``serving``, ``draining`` or ``fenced``."""

    state_reason: str
    version: str
    up_s: float
    data_dir: str
    sinks: int
    sinks_max: int
    disk_free: int
    disk_reserve: int
    memory_used: int
    memory_limit: int
    memory_watermark: float
    quarantined_pages: int
    warnings: tuple[str, ...]
    journal_outage: str
    journal_outage_cause: str
    backup_target: str
    newest_backup: str
    newest_backup_at: datetime | None
    backup_age_s: float | None

    @property
    def is_serving(self) -> bool:
        """True if the broker accepts calls."""
        return self.state == "serving"


@dataclass(frozen=True, slots=True)
class SinkState:
    """Facts of a sink for the list of what needs attention."""

    name: str
    state: str
    waiting: int
    subscription: str
    reason: str
    retry_in_s: float | None
    share: float
    full_in_s: float | None
    dead_letters: int
    in_per_s: float
    out_per_s: float


@dataclass(frozen=True, slots=True)
class Status:
    """Facts of one screen."""

    broker: BrokerState
    waiting: int
    in_per_s: float
    out_per_s: float
    states: Mapping[str, int]
    """Number of sinks by state."""

    needs: Sequence[Need]

    @property
    def is_well(self) -> bool:
        """True if the broker serves, and no record is refused or dropped."""
        return self.broker.is_serving and all(need.severity < Severity.CRITICAL for need in self.needs)


def status(
    strict: Annotated[bool, typer.Option("--strict", help="Warnings end with code 1 too, not only failures.")] = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show one screen: state, version, uptime, disk and memory, sinks that need attention, last backup.

    Exit code 0: the broker serves, and accepts records of every sink. 1: it does not, or records are refused or
    dropped; with --strict also what is only a warning. 4: no broker answers.
    """
    with connect(endpoint) as client:
        found = [_status(client, each) for each in client.endpoints]
    if output is Output.JSON:
        write_json([_facts(one) for one in found])
    else:
        for one in found:
            _show(one)
    bound = Severity.WARNING if strict else Severity.CRITICAL
    is_well = all(one.is_well and all(need.severity < bound for need in one.needs) for one in found)
    raise typer.Exit(ExitCode.OK if is_well else ExitCode.FAILED)


def _status(client: Client, endpoint: str) -> Status:
    info = client.info(endpoint)
    names = [one.name for one in client.sinks.list() if client.endpoint_of(one.name) == endpoint]
    stats = listed(client, client.sinks.stats, names)
    return status_of(endpoint, info, list(stats.values()), datetime.now(UTC))


def status_of(endpoint: str, info: BrokerInfo, sinks: Sequence[SinkStats], now: datetime) -> Status:
    """Return the facts of a broker and its sinks."""
    now = info.now or now  # the clock of the broker, whose times are compared with it
    letters = {one.name: one.records for one in sinks if one.name.endswith(DEAD_LETTERS)}
    lines = [(one, sink_line(one)) for one in sinks]
    states = [_sink_state(stats, line, letters.get(stats.name + DEAD_LETTERS, 0), now) for stats, line in lines]
    broker = _broker_state(endpoint, info, now)
    words = [one.state for one in states]
    return Status(
        broker=broker,
        waiting=sum(one.waiting for one in states),
        in_per_s=sum(one.in_per_s for one in states),
        out_per_s=sum(one.out_per_s for one in states),
        states={word: words.count(word) for word in sorted(set(words))},
        needs=needs(broker, states),
    )


def _broker_state(endpoint: str, info: BrokerInfo, now: datetime) -> BrokerState:
    taken = info.newest_backup_at
    return BrokerState(
        endpoint=endpoint,
        state=info.state.lower(),
        state_reason=info.state_reason,
        version=info.version,
        up_s=max(0.0, (now - info.started_at).total_seconds()),
        data_dir=info.data_dir,
        sinks=info.sinks,
        sinks_max=info.sinks_max,
        disk_free=info.disk_free_bytes,
        disk_reserve=info.disk_reserve_bytes,
        memory_used=info.memory_used_bytes,
        memory_limit=info.memory_limit_bytes,
        memory_watermark=info.memory_high_watermark,
        quarantined_pages=info.quarantined_pages,
        warnings=info.warnings,
        journal_outage=info.journal_outage,
        journal_outage_cause=info.journal_outage_cause,
        backup_target=info.backup_target,
        newest_backup=info.newest_backup,
        newest_backup_at=taken,
        backup_age_s=None if taken is None else max(0.0, (now - taken).total_seconds()),
    )


def _sink_state(stats: SinkStats, line: Line, dead_letters: int, now: datetime) -> SinkState:
    retry_at, out_per_s = line.retry_at, line.subscription.settled_per_s
    return SinkState(
        name=stats.name,
        state=line.flow.value,
        waiting=line.records,
        subscription=line.subscription.name,
        reason=line.reason,
        retry_in_s=None if retry_at is None else max(0.0, (retry_at - now).total_seconds()),
        share=min(1.0, stats.limit_used),
        full_in_s=seconds_to_full(stats.records, stats.limit_used, in_per_s=stats.appended_per_s, out_per_s=out_per_s),
        dead_letters=dead_letters,
        in_per_s=stats.appended_per_s,
        out_per_s=out_per_s,
    )


def _facts(one: Status) -> dict[str, object]:
    listed = [{**_need(need), "severity": need.severity.name.lower()} for need in one.needs]
    return {
        "is_well": one.is_well,
        "broker": one.broker,
        "waiting": one.waiting,
        "in_per_s": one.in_per_s,
        "out_per_s": one.out_per_s,
        "states": one.states,
        "needs": listed,
    }


def _need(need: Need) -> dict[str, object]:
    return {"sink": need.subject, "sentence": need.sentence, "command": need.command}


def _show(one: Status) -> None:
    broker = one.broker
    since = f"{broker.state} for {seconds_text(broker.up_s)}"
    words = ", ".join(f"{number} {word}" for word, number in one.states.items())
    rates = f"{rate(one.in_per_s)} in, {rate(one.out_per_s)} out"
    rows: list[tuple[object, ...]] = [
        ("state", Styled(since, "green" if broker.is_serving else "bold red")),
        ("reason", broker.state_reason or None),
        ("version", broker.version),
        ("data", broker.data_dir or "in memory only"),
        ("disk", _disk(broker)),
        ("memory", _memory(broker)),
        ("sinks", f"{broker.sinks:,} of {broker.sinks_max:,}" + (f": {words}" if words else "")),
        ("records", f"{one.waiting:,} waiting, {rates}"),
        ("backup", _backup(broker)),
    ]
    write_table(f"broker at {broker.endpoint}", ("", ""), [row for row in rows if row[1] is not None])
    if not one.needs:
        write_line("Nothing needs attention.")
        return
    write_line(f"{len(one.needs)} need attention:")
    listed: list[tuple[object, ...]] = []
    for need in one.needs[:LISTED_MAX]:
        listed += [(Styled(need.severity.name.lower(), STYLES[need.severity]), need.sentence), ("", need.command)]
    write_table("", ("severity", "cause, and the command that tells more"), listed)
    if len(one.needs) > LISTED_MAX:
        write_line(f"and {len(one.needs) - LISTED_MAX} more: forebay status -o json")


def _disk(broker: BrokerState) -> str | None:
    if not broker.data_dir:
        return None
    return f"{bytes_text(broker.disk_free)} free, {bytes_text(broker.disk_reserve)} reserved"


def _memory(broker: BrokerState) -> str | None:
    if not broker.memory_limit:
        return None
    used, limit = bytes_text(broker.memory_used), bytes_text(broker.memory_limit)
    share = broker.memory_used / broker.memory_limit
    return f"{used} of {limit} ({share:.0%}), restricted above {broker.memory_watermark:.0%}"


def _backup(broker: BrokerState) -> str:
    if broker.newest_backup_at is not None and broker.backup_age_s is not None:
        when = time_text(broker.newest_backup_at)
        return f"{broker.newest_backup}, {seconds_text(broker.backup_age_s)} ago ({when})"
    return f"none yet in {broker.backup_target}" if broker.backup_target else "none: no backup_target is set"
