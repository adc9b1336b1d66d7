"""`forebay shard ...`: shows the shards of a fleet, hands one over; ``journal.removal`` removes one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.command import Commands
from forebay.cli.exits import ExitCode
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import Column, Output, seconds_text, write_json, write_line, write_message, write_values
from forebay.cli.quantities import duration
from forebay.cli.report import CommandFailed
from forebay.state.numbers import counted

if TYPE_CHECKING:
    from forebay.client import HandOver, Shard

shard_app = Commands(
    help="Show the shards of a fleet, hand one over, and remove one.",
    example="forebay shard list --endpoint forebay://a.example,b.example\nforebay shard hand-over --to 10.0.0.2:7461",
)
TAKEOVER_TIMEOUT_S: Final = 60.0


@shard_app.command("list", example="forebay shard list --endpoint forebay://a.example,b.example")
def list_shards(endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """List the shards with the address and the epoch of the owner of each. An owner may be lost since.

    Sinks whose name exists in more than one shard are reported, with advice.
    """
    from forebay.client import ForebayError

    with connect(endpoint) as client:
        found = client.shards.list()
        try:
            remarks = [f"{one}; {one.advice}" for one in client.shards.repeated()]
        except ForebayError as error:  # the list is for an outage, too
            remarks = [f"not every shard was asked for sinks of the same name: {error}"]
    columns: dict[str, Column[Shard]] = {
        "shard": lambda shard: shard.name or "(without a name)",
        "owner": "endpoint",
        "epoch": "owner_epoch",
    }
    write_values(found, output, counted(len(found), "shard"), columns)
    for remark in remarks:
        write_message(f"forebay: {remark}")


@shard_app.command("hand-over", example="forebay shard hand-over --to 10.0.0.2:7461")
def hand_over(
    to: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Broker that takes over, as its setting advertise or listen names it. Default: any other one.",
        ),
    ] = "",
    shard: Annotated[str, typer.Option("--shard", metavar="NAME", help="Shard of a fleet, for forebay:// only.")] = "",
    takeover_timeout: Annotated[
        float,
        typer.Option(
            "--takeover-timeout",
            metavar="DURATION",
            parser=duration(1, 3_600),
            help="Time limit of the takeover by the broker of --to.",
        ),
    ] = TAKEOVER_TIMEOUT_S,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Let another broker of the shard take over at once. The owner stops serving and becomes a follower.

    Check the lag of the other broker first: one that is behind takes over after it has caught up.
    """
    with connect(endpoint) as client:
        before = client.shards.hand_over(to, shard=shard)
    epoch = before.owner_epoch if before.already_owner or not to else _taken_over(to, before, takeover_timeout)
    if output is Output.JSON:
        write_json({"to": to or None, "owner_epoch": epoch, "already_owner": before.already_owner})
    elif before.already_owner:
        write_line(f"{to} owns the shard already, with owner epoch {epoch}")
    elif to:
        write_line(f"{to} has taken over with owner epoch {epoch}")
    else:
        write_line(f"the owner with epoch {epoch} stops; any other broker of the shard takes over")


def _taken_over(to: str, before: HandOver, timeout_s: float) -> int:
    """Return the epoch of the next owner once it serves at ``to``."""
    from forebay.cli.security import client_settings
    from forebay.client import Client, ForebayError

    until = time.monotonic() + timeout_s
    cause = "it is no owner of this shard"
    with Client(to, settings=client_settings()) as client:
        while (left := until - time.monotonic()) > 0:
            try:
                found = client.info(timeout_s=left).owner_epoch
            except ForebayError as error:
                cause = str(error)
                break
            if found > before.owner_epoch:
                return found
            time.sleep(min(left, 0.1))
    raise CommandFailed(
        f"{to} has not taken over within {seconds_text(timeout_s)}: {cause}",
        ExitCode.UNAVAILABLE,
        reason="NO_TAKEOVER",
        facts={"to": to, "owner_epoch": str(before.owner_epoch)},
        advice="any broker of the shard takes over after takeover_after_s; look for it with `forebay info`",
    )
