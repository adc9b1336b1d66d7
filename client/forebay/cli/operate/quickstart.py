"""`forebay quickstart`: a publisher through an outage and a kill of the broker, without Spark."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from forebay.cli.extras import require
from forebay.cli.operate.demo_folder import run_demo
from forebay.cli.options import OutputForm
from forebay.cli.output import Output, write_json, write_line
from forebay.cli.quantities import duration
from forebay.cli.report import CommandFailed
from forebay.state.numbers import counted

NEEDED: Final = ("rocksdict", "httpx2", "psutil", "starlette", "uvicorn")
"""Modules of the extras that the processes need."""

NEXT_STEPS: Final = (
    ("forebay serve", "start a broker; its data is in ./forebay-data"),
    ("forebay sink create orders", "create a sink"),
    ("forebay publish orders hello", "write a record"),
    ("forebay deliver orders --to file -O path=orders.jsonl", "deliver it; --to https://... posts it"),
    ("forebay lag", "see what waits, and why"),
)


def quickstart(
    outage_s: Annotated[
        float,
        typer.Option(
            "--outage", metavar="DURATION", parser=duration(0, 3600), help="Time for which the remote system is down."
        ),
    ] = 4,
    output: OutputForm = Output.TABLE,
) -> None:
    """Publish through an outage of a remote system and a kill of the broker, and count.

    It takes less than 20 seconds and needs no Spark. It
    starts a broker, a remote system (HTTP, with a database), a deliverer and a publisher on this machine, in a
    temporary folder. The remote system is stopped and the broker is killed with -9 while the publisher keeps writing.
    At the end its records are compared with the remote system's table: with exit code 0 none is lost, doubled or out
    of order.
    """
    require("the quickstart", NEEDED)
    from forebay.cli.demo.plan import DemoSettings

    settings = DemoSettings(
        outage_s=outage_s, kills=1, warm_up_s=2.0, calm_s=0.5, aftermath_s=1.0, partitions=2, drain_s=60.0, spark=False
    )
    place, result = run_demo(settings, None)
    found = result.reconciliation
    if output is Output.JSON:
        write_json(result.facts())
    else:
        write_line("")
        write_line(
            f"{found.records_in:,} records were published while the remote system was down for {result.outage_s:.0f} s"
            f" and the broker was killed {counted(result.broker_kills, 'time')}."
        )
        write_line(
            f"{found.delivered:,} are in the remote system's table: {found.lost} lost, {found.out_of_order} out of"
            f" order, each once ({counted(found.duplicates, 'repeated delivery', 'repeated deliveries')} recognized)."
            f" It took {result.elapsed_s:.0f} s."
        )
        width = max(len(command) for command, _ in NEXT_STEPS)
        write_line("")
        write_line("Next:")
        for command, meaning in NEXT_STEPS:
            write_line(f"  {command:<{width}}  {meaning}")
        write_line("")
        write_line("With Spark, live charts and your own data: forebay demo")
    if not found.ok:
        raise CommandFailed(f"the reconciliation failed; files of the run: {place}")
