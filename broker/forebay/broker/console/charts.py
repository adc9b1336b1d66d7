"""Charts of the console: stretched SVG without texts, and HTML beside it for the labels of axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final

from markupsafe import Markup

from forebay.broker.console.history import SPAN_S, SPANS, STATES, DaySpan
from forebay.broker.core.resources.latency import BOUNDS_S
from forebay.state import numbers as text
from forebay.state.flow import Flow

WIDTH: Final = 120
HEIGHT: Final = 24
DAY_HEIGHT: Final = 60

HOURS: Final = (24, 18, 12, 6, 0)
"""Labels of the last day: hours before the newest span."""


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
    """Return the records of a partition as a strip: settled, missing in gaps, in flight and waiting."""
    total = max(1, end - lane.start_offset)
    waiting = max(0, lane.pending - lane.in_flight)
    settled = max(0, end - lane.start_offset - lane.dropped - lane.in_flight - waiting)
    label = (
        f"{text.count(settled)} settled, {text.count(lane.dropped)} in gaps, {text.count(lane.in_flight)} in flight, "
        f"{text.count(waiting)} waiting"
    )
    parts, at = Markup(""), 0.0
    for name, records in (("settled", settled), ("gap", lane.dropped), ("flight", lane.in_flight), ("wait", waiting)):
        width = 100 * records / total
        parts += Markup('<rect class="{}" x="{:.2f}" y="0" width="{:.2f}" height="14"/>').format(name, at, width)
        at += width
    return Markup(
        '<svg class="strip" role="img" viewBox="0 0 100 14" preserveAspectRatio="none"><title>{}</title>{}</svg>'
    ).format(label, parts)


def latencies(counts: Sequence[int], name: str) -> Markup:
    """Return a histogram of latencies, with the bounds of half and 99 % of them in words."""
    total = sum(counts)
    if not total:
        return Markup("")
    names = [f"up to {text.duration(bound)}" for bound in BOUNDS_S] + [f"above {text.duration(BOUNDS_S[-1])}"]
    width = WIDTH / len(counts)
    bars = Markup("").join(
        Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            at * width + 1, HEIGHT - height, width - 2, height
        )
        for at, height in enumerate(math.ceil(count / max(counts) * (HEIGHT - 2)) for count in counts)
    )
    listed = ", ".join(f"{word} {text.count(count)}" for word, count in zip(names, counts, strict=True) if count)
    words = f"half {names[_bucket(counts, 0.5)]}, 99 % {names[_bucket(counts, 0.99)]}"
    return Markup(
        '<svg class="latencies" role="img" viewBox="0 0 {w} {h}" preserveAspectRatio="none"><title>{label}</title>'
        '{bars}</svg><span class="quiet">{words}</span>'
    ).format(w=WIDTH, h=HEIGHT, label=f"Pages of {name} by time: {listed}", bars=bars, words=words)


def _bucket(counts: Sequence[int], share: float) -> int:
    """Return the bucket in which a share of the events is reached."""
    wanted = share * sum(counts)
    return next(at for at, reached in enumerate(accumulate(counts)) if reached >= wanted)


def day(spans: Sequence[DaySpan], name: str) -> Markup:
    """Return the last day as SVG: waiting records as an area over bands of the states that need attention."""
    if not spans:
        return Markup("")
    spans = [span for _, span in _placed(spans)]
    high = max(1.0, *(span.waiting for span in spans))
    label = f"{name}: at most {text.count(high)} waiting records in the last {_length(spans)}{_attention(spans)}"
    area = _area(spans, lambda span: span.waiting, high)
    return _drawn(spans, label, Markup('<polygon points="{}"/>').format(area))


def day_charts(spans: Sequence[DaySpan]) -> Markup:
    """Return the last day with labelled axes: waiting records, then the rates in and out."""
    if not spans:
        return Markup("")
    spans = [span for _, span in _placed(spans)]
    waiting = max(1.0, *(span.waiting for span in spans))
    fastest = max((rate for span in spans for rate in (span.into, span.out)), default=0.0) or 1.0
    area = Markup('<polygon points="{}"/>').format(_area(spans, lambda span: span.waiting, waiting))
    lines = Markup('<polyline class="into" points="{}"/><polyline class="out" points="{}"/>').format(
        _steps(spans, lambda span: span.into, fastest), _steps(spans, lambda span: span.out, fastest)
    )
    backlog = f"Backlog: at most {text.count(waiting)} waiting records in the last {_length(spans)}{_attention(spans)}"
    rates = (
        f"Records per second: in at most {text.rate(max(span.into for span in spans))}, "
        f"out at most {text.rate(max(span.out for span in spans))} in the last {_length(spans)}"
    )
    bands = [flow for flow in STATES if flow.needs_attention and any(span.state is flow for span in spans)]
    legend = Markup("").join(
        Markup('<li><span class="key {}"></span>{}</li>').format(kind, word)
        for kind, word in (
            ("waiting", "waiting"),
            ("into", "in"),
            ("out", "out"),
            *((f"band {_word(flow)}", flow.value) for flow in bands),
        )
    )
    return (
        _with_axes("Waiting records", _drawn(spans, backlog, area), text.count(waiting))
        + _with_axes("Records per second", _drawn(spans, rates, lines), text.rate(fastest))
        + Markup('<ul class="legend">{}</ul>').format(legend)
    )


def _with_axes(title: str, drawing: Markup, high: str) -> Markup:
    hours = Markup("").join(
        Markup('<span class="x h{}">{}</span>').format(ago, f"{ago} h ago" if ago else "now") for ago in HOURS
    )
    return Markup(
        '<div class="chart"><div class="quiet">{}</div><div class="plot"><span class="y top">{}</span>'
        '<span class="y">0</span>{}{}</div></div>'
    ).format(title, high, drawing, hours)


def _drawn(spans: Sequence[DaySpan], label: str, shapes: Markup) -> Markup:
    bands = Markup("").join(
        Markup('<rect class="{}" x="{}" y="0" width="1" height="{}"/>').format(_word(span.state), at, DAY_HEIGHT)
        for at, span in _placed(spans)
        if span.state.needs_attention
    )
    return Markup(
        '<svg class="day" role="img" viewBox="0 0 {w} {h}" preserveAspectRatio="none"><title>{label}</title>'
        "{bands}{shapes}</svg>"
    ).format(w=SPANS, h=DAY_HEIGHT, label=label, bands=bands, shapes=shapes)


def _placed(spans: Sequence[DaySpan]) -> list[tuple[int, DaySpan]]:
    """Return the spans of the last day with their places; the newest is at the right end."""
    last = spans[-1].number
    return [(SPANS - 1 - (last - span.number), span) for span in spans if last - span.number < SPANS]


def _steps(spans: Sequence[DaySpan], value: Callable[[DaySpan], float], high: float) -> str:
    points: list[str] = []
    for at, span in _placed(spans):
        top = DAY_HEIGHT - 1 - value(span) / high * (DAY_HEIGHT - 2)
        points += [f"{at},{top:.1f}", f"{at + 1},{top:.1f}"]
    return " ".join(points)


def _area(spans: Sequence[DaySpan], value: Callable[[DaySpan], float], high: float) -> str:
    begin = _placed(spans)[0][0]
    return f"{begin},{DAY_HEIGHT} {_steps(spans, value, high)} {SPANS},{DAY_HEIGHT}"


def _length(spans: Sequence[DaySpan]) -> str:
    return text.duration(len(spans) * SPAN_S)


def _attention(spans: Sequence[DaySpan]) -> str:
    """Return the states that needed attention, and for how long."""
    states = [state.value for state in STATES if state.needs_attention and any(one.state is state for one in spans)]
    seconds = sum(SPAN_S for one in spans if one.state.needs_attention)
    return f"; {', '.join(states)} for {text.duration(seconds)}" if states else ""


def _word(state: Flow) -> str:
    """Return a state as the name of a class of the style."""
    return state.value.replace(" ", "-")
