"""Progress display of the demo: current figures, and a line per event.

On a terminal the figures stay at the bottom while events scroll above them. In a log or pipe the figures are printed as
a line every few seconds.
"""

from __future__ import annotations

from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from forebay.cli.demo.report.samples import Event, Sample
from forebay.cli.output import seconds_text
from forebay.text import visible

LOG_INTERVAL_S: Final = 5.0
"""Interval of the figures' line without a terminal."""


class Progress:
    """Progress display on ``console``. A context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._logged_at_s = float("-inf")

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def happened(self, event: Event) -> None:
        """Print an event."""
        self._console.print(Text.assemble((f"{event.at_s:7.1f} s  ", "dim"), visible(event.text)), soft_wrap=True)

    def show(self, sample: Sample) -> None:
        """Show new figures."""
        if self._live is not None:
            self._live.update(_panel(sample), refresh=True)
        elif sample.at_s - self._logged_at_s >= LOG_INTERVAL_S:
            self._logged_at_s = sample.at_s
            self.happened(Event(sample.at_s, f"  {figures(sample)}"))


def figures(sample: Sample) -> str:
    """Return the figures on one line."""
    return (
        f"produced {sample.produced:,}, written {sample.published:,}, buffered {sample.buffered:,}, "
        f"delivered {sample.delivered:,}, lag {seconds_text(sample.age_s)}"
    )


def _panel(sample: Sample) -> Table:
    table = Table.grid(padding=(0, 3), expand=False)
    names = ("produced", "written", "buffered", "delivered", "lag", "broker", "remote system")
    for _ in names:
        table.add_column(justify="right")
    table.add_row(*(Text(name, style="dim") for name in names))
    table.add_row(
        f"{sample.produced:,}",
        f"{sample.published:,}",
        Text(f"{sample.buffered:,}", style="bold yellow" if sample.buffered else "bold"),
        Text(f"{sample.delivered:,}", style="bold green"),
        seconds_text(sample.age_s),
        _state(up=sample.broker_up),
        _state(up=sample.target_up),
    )
    return table


def _state(*, up: bool) -> Text:
    return Text("up", style="green") if up else Text("AWAY", style="bold red")
