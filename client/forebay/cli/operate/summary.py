"""Running summary of deliveries: a line at a terminal, an event in the log elsewhere.

A thread reads the counts of the deliverers, and asks the broker for the waiting records. While the broker does not
answer, or the caller may not view a sink, the number of waiting records is unknown; deliveries are not affected.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.output import JSON_MESSAGES, seconds_text
from forebay.cli.quantities import duration
from forebay.state.numbers import counted

if TYPE_CHECKING:
    from rich.text import Text

    from forebay.client import Client
    from forebay.deliver import Totals

_log = logging.getLogger("forebay.deliver")

LINE_S: Final = 1.0
"""Interval between two updates of the line."""
ASK_S: Final = 5.0
"""Interval between two questions for waiting records while a line is shown."""
STOP_S: Final = 0.5
"""Time that the end waits for the thread, which may wait for the broker."""

SUMMARY_S: Final = 60.0
SummaryInterval = Annotated[
    float,
    typer.Option(
        "--summary-interval",
        metavar="DURATION",
        parser=duration(0, 86_400),
        help="Time between two summaries in the log; at a terminal a line shows them instead. 0 for none.",
    ),
]
Place = tuple[str, str]
"""Sink and subscription."""


@dataclass(frozen=True, slots=True)
class Line:
    """Summary of one delivery."""

    place: Place
    totals: Totals
    per_s: float
    """Rate of delivered records since the last summary."""

    waiting: int | None
    """Records that are not settled; None if unknown."""

    @property
    def is_idle(self) -> bool:
        """True if there is nothing to say: no record was delivered, none waits, nothing fails."""
        return not self.per_s and not self.waiting and self.totals.failing_s is None


class Summary:
    """Counts of deliveries at two times, and the lines between them. One thread."""

    def __init__(
        self,
        read: Callable[[], Mapping[Place, Totals]],
        waiting_of: Callable[[Place], int | None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._waiting_of, self._clock = read, waiting_of, clock
        self._before: Mapping[Place, Totals] = {}
        self._waiting: dict[Place, int | None] = {}
        self._at = clock()
        self._asked_at = float("-inf")

    def lines(self, *, ask_after_s: float = 0.0) -> list[Line]:
        """Return the lines since the last call; waiting records are at most ``ask_after_s`` old."""
        now, totals = self._clock(), dict(self._read())
        if now - self._asked_at >= ask_after_s:
            self._waiting = {place: self._waiting_of(place) for place in totals}
            self._asked_at = now
        passed_s = max(now - self._at, 1e-9)
        found = []
        for place, each in totals.items():
            known = self._before[place].delivered if place in self._before else 0
            delivered = each.delivered - (known if known <= each.delivered else 0)  # a restarted delivery counts from 0
            found.append(Line(place, each, delivered / passed_s, self._waiting.get(place)))
        self._before, self._at = totals, now
        return found


def waiting_records(client: Client) -> Callable[[Place], int | None]:
    """Return a function that asks the broker for the records that wait; None if it does not answer."""
    from forebay.client import ForebayError
    from forebay.client.errors import AccessDenied

    denied: set[Place] = set()

    def ask(place: Place) -> int | None:
        if place in denied:
            return None
        sink, name = place
        try:
            stats = client.sinks.stats(sink)
        except AccessDenied:  # the right to view is not needed for deliveries; asked once only
            denied.add(place)
            return None
        except ForebayError:
            return None
        lanes = [lane for each in stats.subscriptions if each.name == name for lane in each.partitions]
        return sum(lane.pending for lane in lanes)

    return ask


@contextmanager
def summarized(
    read: Callable[[], Mapping[Place, Totals]], waiting_of: Callable[[Place], int | None], *, interval_s: float
) -> Iterator[None]:
    """Show a line of all deliveries at a terminal, elsewhere log one event per delivery and interval.

    ``interval_s`` 0 is for neither. Deliveries that are idle have no event.
    """
    if not interval_s:
        yield
        return
    summary, stopping = Summary(read, waiting_of), threading.Event()
    shows_line = sys.stderr.isatty() and not JSON_MESSAGES.get()
    with ExitStack() as shown:
        say = log
        if shows_line:
            from rich.console import Console
            from rich.live import Live

            live = shown.enter_context(Live(console=Console(stderr=True), auto_refresh=False, transient=True))

            def say(lines: list[Line]) -> None:
                live.update(line_of(lines), refresh=True)

        def run() -> None:
            while not stopping.wait(LINE_S if shows_line else interval_s):
                say(summary.lines(ask_after_s=ASK_S if shows_line else 0.0))

        thread = threading.Thread(target=run, name="forebay-summary", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join(STOP_S)


def log(lines: list[Line]) -> None:
    """Log one event for each delivery that is not idle."""
    for line in lines:
        if line.is_idle:
            continue
        _log.info(
            "deliveries were summarized sink=%s subscription=%s delivered=%d per_s=%.1f waiting=%s "
            "failed_attempts=%d rejected=%d failing_s=%.1f",
            *line.place,
            *(line.totals.delivered, line.per_s, "unknown" if line.waiting is None else line.waiting),
            *(line.totals.failures, line.totals.rejected, line.totals.failing_s or 0.0),
        )


def line_of(lines: list[Line]) -> Text:
    """Return one line of text for all deliveries."""
    from rich.text import Text

    waiting = [line.waiting for line in lines]
    known = [count for count in waiting if count is not None]
    failing = [line.totals.failing_s for line in lines if line.totals.failing_s is not None]
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{sum(line.totals.delivered for line in lines):,} delivered")
    text.append(f"  {sum(line.per_s for line in lines):,.0f}/s")
    text.append(f"  {sum(known):,} waiting" if len(known) == len(waiting) else "  waiting unknown")
    if failures := sum(line.totals.failures for line in lines):
        text.append(f"  {counted(failures, 'failed attempt')}")
    if rejected := sum(line.totals.rejected for line in lines):
        text.append(f"  {rejected:,} rejected", style="red")
    if failing:
        of = f"{len(failing)} of {len(lines)} targets fail" if len(lines) > 1 else "the target fails"
        text.append(f"  {of} since {seconds_text(max(failing))}", style="red")
    return text
