"""`forebay demo`: a Spark job through an outage and kills of the broker, with a reconciliation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.extras import require
from forebay.cli.operate.demo_folder import run_demo
from forebay.cli.options import OutputForm
from forebay.cli.output import Output, write_json, write_line, write_table
from forebay.cli.quantities import duration
from forebay.cli.report import CommandFailed
from forebay.state.numbers import counted

if TYPE_CHECKING:
    from forebay.cli.demo.plan import DemoSettings
    from forebay.cli.demo.run import DemoResult

DEFAULT_CHART: Final = Path(".forebay") / "demo-backlog.html"

NEEDED: Final = ("rocksdict", "httpx2", "pyspark", "psutil", "starlette", "uvicorn")
"""Modules of the extras that the demo's processes need."""

ROWS: Final = (
    ("records_in", "distinct records produced by the source"),
    ("published", "records in the broker's partitions"),
    ("delivered", "distinct records in the remote system"),
    ("lost", "produced, but not in the table"),
    ("out_of_order", "arrived after a higher offset of their partition"),
    ("duplicates", "duplicates removed by the idempotency key"),
    ("republished", "written again by Spark, with a second offset"),
    ("dropped", "dropped by the broker"),
    ("dead_lettered", "rejected permanently by the remote system"),
    ("pending", "still waiting in the broker"),
    ("identity_ok", "every offset is accounted for"),
)


def demo(
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="PATH",
            help="Send the rows of this file (.csv .json .jsonl .ndjson .geojson .parquet .arrow) instead of live "
            "readings of this machine. Repeatable.",
        ),
    ] = None,
    outage_s: Annotated[
        float,
        typer.Option(
            "--outage", metavar="DURATION", parser=duration(0, 3600), help="Time for which the remote system is down."
        ),
    ] = 15,
    kills: Annotated[int, typer.Option(help="Number of kills (-9) of the broker.", min=0, max=1000)] = 2,
    partitions: Annotated[int, typer.Option(help="Partitions of the sink.", min=1, max=64)] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the times of the kills.")] = 0,
    warm_up_s: Annotated[
        float,
        typer.Option(
            "--warm-up", metavar="DURATION", parser=duration(0, 3600), help="Undisturbed time before the outage."
        ),
    ] = 4,
    chart: Annotated[Path, typer.Option(help="HTML file for the chart of the backlog.")] = DEFAULT_CHART,
    folder: Annotated[
        Path | None, typer.Option(help="Empty folder for the files of the run; default: a temporary one.")
    ] = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Run a Spark job through an outage of the remote system and kills of the broker.

    Starts a broker, a remote system (HTTP, with a database), a deliverer, a Spark streaming query and a
    source, each in its own process on this machine. Then the remote system is stopped and the broker is
    killed with -9 while Spark keeps writing. At the end the records of the source are compared with the
    remote system's table: with exit code 0 no record is lost or out of order, and every record is
    accounted for.
    """
    require("the demo", NEEDED)
    from forebay.cli.demo.plan import DemoSettings
    from forebay.cli.demo.processes.java import JavaMissing, require_java
    from forebay.cli.demo.source.input import UnreadableInput, check

    try:
        require_java()
        for path in inputs or []:
            check(path)
    except JavaMissing as error:
        raise CommandFailed(str(error), ExitCode.MISSING) from error
    except UnreadableInput as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    settings = DemoSettings(
        inputs=tuple(inputs or ()),
        outage_s=outage_s,
        kills=kills,
        partitions=partitions,
        seed=seed,
        warm_up_s=warm_up_s,
    )
    place, result = run_demo(settings, folder)
    _write_result(result, settings, chart, output)
    if not result.reconciliation.ok:
        raise CommandFailed(f"the reconciliation failed; files of the run: {place}")


def _write_result(result: DemoResult, settings: DemoSettings, chart: Path, output: Output) -> None:
    from forebay.cli.demo.report.chart import write_chart

    found = result.reconciliation
    facts = result.facts()
    subtitle = (
        f"remote system down for {result.outage_s:.0f} s, broker killed {counted(result.broker_kills, 'time')}; "
        f"{found.delivered:,} of {counted(found.records_in, 'record')} arrived, {found.lost} lost"
    )
    title = "A Spark job's output through an outage"
    written = write_chart(result.history, chart, title=title, subtitle=subtitle, lost=found.lost)
    table = [(name.replace("_", " "), facts[name], meaning) for name, meaning in ROWS]
    if output is Output.JSON:
        write_json({**facts, "inputs": settings.inputs, "seed": settings.seed, "chart": written.resolve()})
        sys.stdout.flush()
        return
    write_table("records of the source compared with the remote system's table", ("", "records", ""), table)
    write_line(text(result))
    write_line(f"chart of the backlog: {written}")


def text(result: DemoResult) -> str:
    """Return a summary in a few sentences."""
    found = result.reconciliation
    what = (
        f"The remote system was down for {result.outage_s:.0f} s and the broker was killed "
        f"{counted(result.broker_kills, 'time')} while Spark kept writing"
    )
    if result.spark_restarts:
        what += f"; Spark's query was restarted {counted(result.spark_restarts, 'time')} from its checkpoint"
    if found.ok:
        return (
            f"{what}. All {found.records_in:,} records are in the remote system's table, in order, "
            f"and the broker's accounts balance. It took {result.elapsed_s:.0f} s."
        )
    problems = [f"{getattr(found, name)} {name.replace('_', ' ')}" for name, _ in ROWS[3:5] + ROWS[7:10]]
    identity = "balance" if found.identity_ok else "do NOT balance"
    return f"{what}. The reconciliation failed: {', '.join(problems)}; the accounts {identity}."
