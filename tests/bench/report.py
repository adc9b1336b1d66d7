"""Rows and bars as a table for people and as one JSON object, the last line, for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.values import Bar, Row


def show(rows: Sequence[Row], bars: Sequence[Bar], *, elapsed_s: float) -> bool:
    """Print everything; return whether every bar was met."""
    console = Console(width=max(Console().width, 150))
    console.print(_rows(rows))
    console.print(_bars(bars))
    met = all(bar.met for bar in bars)
    result: dict[str, Any] = {
        "rows": [_rounded(asdict(row)) for row in rows],
        "bars": [{**_rounded(asdict(bar)), "met": bar.met} for bar in bars],
        "met": met,
        "elapsed_s": round(elapsed_s, 1),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }
    print(json.dumps(result), flush=True)
    return met


def _rounded(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in fields.items()}


def _rows(rows: Sequence[Row]) -> Table:
    table = Table(title="Forebay on this machine: medians", title_justify="left")
    table.add_column("")
    for name in ("record B", "partitions", "per second", "MB/s", "p50 ms", "p99 ms", "broker s/GiB", "written/byte"):
        table.add_column(name, justify="right")
    table.add_column("peak MiB", justify="right")
    table.add_column("runs", justify="right")
    for row in rows:
        table.add_row(
            row.name,
            _text(row.record_bytes),
            _text(row.partitions),
            _text(row.records_per_s),
            _text(row.mb_per_s),
            _text(row.p50_ms, 3),
            _text(row.p99_ms, 3),
            _text(row.processor_s_per_gib, 2),
            _text(row.written_per_byte, 2),
            _text(row.memory_mib),
            _text(row.runs),
        )
    return table


def _bars(bars: Sequence[Bar]) -> Table:
    table = Table(title="Bars: medians of the rounds' ratios", title_justify="left")
    table.add_column("")
    for name in ("ratio", "bar"):
        table.add_column(name, justify="right")
    table.add_column("")
    for bar in bars:
        verdict = "[green]met[/]" if bar.met else "[bold red]MISSED[/]"
        table.add_row(bar.name, f"{bar.ratio:.2f}", f"{bar.sense} {bar.bar:.2f}", verdict)
    return table


def _text(number: float | None, digits: int = 0) -> str:
    return "" if number is None else f"{number:,.{digits}f}"
