"""`forebay run`: runs the deliveries of a file in one process until SIGTERM or Ctrl-C.

Both stop all deliveries gracefully. SIGHUP reads the file again: deliveries that it does not change continue.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.contact import BrokerUnreachable, reach
from forebay.cli.exits import ExitCode
from forebay.cli.extras import needed_for
from forebay.cli.operate.logs import LogFormatOption, start_log
from forebay.cli.operate.signals import Signals
from forebay.cli.operate.summary import SUMMARY_S, SummaryInterval, summarized, waiting_records
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import Output, write_json, write_line, write_message, write_table
from forebay.cli.report import CommandFailed
from forebay.cli.telemetry import exporting
from forebay.process import tune
from forebay.state.numbers import counted
from forebay.text import LogFormat

if TYPE_CHECKING:
    from forebay.deliver.fleet import Finding, Plan


def run_deliveries(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML file of deliveries.", show_default=False)],
    check: Annotated[
        bool, typer.Option("--check", help="Check the file and the options of its targets, without a connection.")
    ] = False,
    open_targets: Annotated[
        bool, typer.Option("--open", help="With --check, open each target as a delivery does, check it, and close it.")
    ] = False,
    summary_interval_s: SummaryInterval = SUMMARY_S,
    log_format: LogFormatOption = LogFormat.TEXT,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Run the deliveries of a file in one process until stopped.

    A delivery that fails is started again after a delay; the others continue. SIGHUP reads the file again, and starts,
    stops and replaces what changed.
    """
    if open_targets and not check:
        raise CommandFailed("--open requires --check", ExitCode.USAGE)
    with needed_for("delivering", "deliver"):
        from forebay.deliver.fleet import Builder, Fleet
    if check:
        _check(file, output, opens=open_targets)
        return
    plan = _load(file)  # its problems are reported before anything is started
    start_log(logging.INFO, "%(asctime)s %(levelname)s %(message)s", log_format)
    for chatty in ("httpx2", "httpcore2"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    tune()
    with Signals() as signals, exporting("forebay-deliver"), connect(endpoint, is_needed=False) as client:
        try:
            reach(client)
        except BrokerUnreachable as error:  # deliveries outlive their broker; the log repeats it
            write_message(f"forebay: {error}; trying again until one does")
        builder = Builder(client)
        fleet = Fleet(lambda: _load(file), builder.deliverer)

        signals.handle({signal.SIGTERM: fleet.stop, signal.SIGINT: fleet.stop, signal.SIGHUP: fleet.reload})
        if output is Output.JSON:
            write_json({"running": file, "deliveries": list(plan.deliveries)})
        else:
            number = counted(len(plan.deliveries), "delivery", "deliveries")
            write_message(f"running {number} of {file}; SIGHUP reloads, Ctrl-C stops")
        with summarized(builder.totals, waiting_records(client), interval_s=summary_interval_s):
            fleet.run()


def _load(file: Path) -> Plan:
    """Return the plan of a file whose targets can be created. Raises `PlanInvalid`."""
    from forebay.deliver import PlanInvalid
    from forebay.deliver.fleet import findings, read_plan

    plan = read_plan(file, os.environ)
    if problems := [f"deliveries.{one.delivery}: {one.problem}" for one in findings(plan, opens=False) if one.problem]:
        raise PlanInvalid(str(file), problems)
    return plan


def _check(file: Path, output: Output, *, opens: bool) -> None:
    """Write the findings. Raises `typer.Exit` with code 2 for a problem, and `PlanInvalid`."""
    from forebay.deliver.fleet import findings, read_plan

    found = findings(read_plan(file, os.environ), opens=opens)
    wrong = [one for one in found if one.problem]
    if output is Output.JSON:
        write_json({"file": file, "valid": not wrong, "deliveries": found})
    else:
        columns = ("delivery", "sink", "subscription", "target", "result")
        write_table(f"deliveries of {file}", columns, _rows(found))
        write_line(f"{file}: {counted(len(wrong), 'problem')}" if wrong else f"{file} is valid")
    raise typer.Exit(ExitCode.USAGE if wrong else ExitCode.OK)


def _rows(found: Sequence[Finding]) -> list[tuple[object, ...]]:
    return [(one.delivery, one.sink, one.subscription, one.target, one.problem or "ok") for one in found]
