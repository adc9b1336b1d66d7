"""HTML of the pages. Everything is escaped: for HTML, and control and bidirectional characters before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from forebay.broker.console.history import SPAN_S, SPANS, STATES, DaySpan
from forebay.broker.console.pages.page import Page
from forebay.broker.console.values import value_text
from forebay.state import numbers as text
from forebay.text import visible

TEMPLATES: Final = Path(__file__).parent / "templates"
WIDTH: Final = 120
HEIGHT: Final = 24
DAY_HEIGHT: Final = 60


class Renderer:
    """Templates of the console."""

    def __init__(self, endpoint: Callable[[], str], *, can_write: bool = False) -> None:
        """``endpoint`` returns the address of the broker for the commands on the pages."""
        self._endpoint = endpoint
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_shown,
        )
        self._environment.globals.update(can_write=can_write)
        self._environment.filters.update(
            count=text.count,
            size=text.size,
            duration=text.duration,
            rate=text.rate,
            clock=_clock,
            proto_clock=lambda at: _clock(at.ToMicroseconds()),
            spark=spark,
            strip=strip,
            day=day,
            value=value_text,
            word=lambda state: state.replace(" ", "-"),
        )

    def document(self, page: Page, *, is_live: bool) -> str:
        """Return a whole page; a live one gets its content again when that changes."""
        asked = f"?{page.query}" if page.query else ""
        return self._environment.get_template("page.html").render(
            page=page,
            content=Markup(self.content(page)),
            command=f"{page.command} --endpoint {self._endpoint()}",
            json=f"{page.path}.json{asked}",
            events=f"/events{page.path}{asked}" if is_live else "",
        )

    def content(self, page: Page) -> str:
        """Return the part of a page that is updated."""
        shown = page.data if page.shown is None else page.shown
        return self._environment.get_template(page.template).render(page=page, data=shown)

    def failure(self, status: int, detail: str) -> str:
        """Return the page of an error."""
        return self._environment.get_template("failure.html").render(status=status, detail=detail)


def spark(values: Sequence[float], name: str) -> Markup:
    """Return a line of numbers as SVG, with its last and highest one as a text for readers of the page."""
    if len(values) < 2:
        return Markup("")
    high = max(values) or 1.0
    step = WIDTH / (len(values) - 1)
    points = " ".join(
        f"{at * step:.1f},{HEIGHT - 1 - value / high * (HEIGHT - 2):.1f}" for at, value in enumerate(values)
    )
    label = f"{name}: now {text.count(values[-1])}, at most {text.count(max(values))} in {len(values)} samples"
    return Markup(
        '<svg class="spark" role="img" viewBox="0 0 {w} {h}" preserveAspectRatio="none"><title>{label}</title>'
        '<polyline points="{points}"/></svg>'
    ).format(w=WIDTH, h=HEIGHT, label=label, points=points)


def strip(lane: Any, end: int) -> Markup:
    """Return the records of a partition as a strip: settled, in flight and waiting."""
    total = max(1, end - lane.start_offset)
    waiting = max(0, lane.pending - lane.in_flight)
    settled = total - lane.in_flight - waiting if end > lane.start_offset else 0
    label = f"{text.count(settled)} settled, {text.count(lane.in_flight)} in flight, {text.count(waiting)} waiting"
    parts, at = Markup(""), 0.0
    for name, records in (("settled", settled), ("flight", lane.in_flight), ("wait", waiting)):
        width = 100 * records / total
        parts += Markup('<rect class="{}" x="{:.2f}" y="0" width="{:.2f}" height="14"/>').format(name, at, width)
        at += width
    return Markup(
        '<svg class="strip" role="img" viewBox="0 0 100 14" preserveAspectRatio="none"><title>{}</title>{}</svg>'
    ).format(label, parts)


def day(spans: Sequence[DaySpan], name: str) -> Markup:
    """Return the last day as SVG: waiting records as an area over bands of the states that need attention."""
    if not spans:
        return Markup("")
    last = spans[-1].number
    high = max(1.0, *(span.waiting for span in spans))
    bands, area = Markup(""), []
    for span in spans:
        at = SPANS - 1 - (last - span.number)
        if at < 0:
            continue
        if span.state.needs_attention:
            word = span.state.value.replace(" ", "-")
            bands += Markup('<rect class="{}" x="{}" y="0" width="1" height="{}"/>').format(word, at, DAY_HEIGHT)
        top = DAY_HEIGHT - span.waiting / high * (DAY_HEIGHT - 2)
        area += [f"{at},{top:.1f}", f"{at + 1},{top:.1f}"]
    begin, end = area[0].partition(",")[0], area[-1].partition(",")[0]
    points = " ".join([f"{begin},{DAY_HEIGHT}", *area, f"{end},{DAY_HEIGHT}"])
    states = [state.value for state in STATES if state.needs_attention and any(one.state is state for one in spans)]
    minutes = sum(SPAN_S / 60 for one in spans if one.state.needs_attention)
    label = f"{name}: at most {text.count(high)} waiting records in the last {text.duration(len(spans) * SPAN_S)}" + (
        f"; {', '.join(states)} for {text.duration(minutes * 60)}" if states else ""
    )
    return Markup(
        '<svg class="day" role="img" viewBox="0 0 {w} {h}" preserveAspectRatio="none"><title>{label}</title>'
        '{bands}<polygon points="{points}"/></svg>'
    ).format(w=SPANS, h=DAY_HEIGHT, label=label, bands=bands, points=points)


def _shown(value: Any) -> Any:
    """Make control characters of foreign texts visible; numbers and markup stay as they are."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _clock(at_us: int) -> Markup:
    """Return a time as HTML, in UTC."""
    at = datetime.fromtimestamp(at_us / 1e6, UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(at.isoformat(), escape(f"{at:%Y-%m-%d %H:%M:%S}"))
