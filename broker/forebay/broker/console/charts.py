"""Charts of the console: stretched SVG without texts, and HTML beside it for the labels of axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from markupsafe import Markup

from forebay.broker.console.health import HEALTH_SPAN_S, HEALTH_SPANS
from forebay.broker.console.history import SAMPLE_S, SAMPLES, SPAN_S, SPANS, STATES, Span
from forebay.broker.core.resources.latency import BOUNDS_S
from forebay.state import numbers as text
from forebay.state.flow import Flow

WIDTH: Final = 120
HEIGHT: Final = 24
DAY_HEIGHT: Final = 60


@dataclass(frozen=True, slots=True)
class _Period:
    """Time that a chart shows."""

    size: int
    """Number of spans."""

    length_s: float
    """Length of a span."""

    reach: int
    """Most spans that one covers, when samples were taken less often."""

    labels: tuple[tuple[int, str], ...]
    """Labels of the axis, each with its place in percent."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A span, where it begins in the chart, and its width."""

    at: int
    width: int
    span: Span


DAY: Final = _Period(
    SPANS, SPAN_S, 1, ((0, "24 h ago"), (25, "18 h ago"), (50, "12 h ago"), (75, "6 h ago"), (100, "now"))
)
HEALTH: Final = _Period(HEALTH_SPANS, HEALTH_SPAN_S, 1, ())
QUARTER: Final = _Period(
    SAMPLES, SAMPLE_S, 12, ((0, "15 min ago"), (33, "10 min ago"), (67, "5 min ago"), (100, "now"))
)


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


def health(spans: Sequence[Span], name: str) -> Markup:
    """Return the last day of a subscription as SVG: waiting records over bands of bad states."""
    shown = _placed(spans, HEALTH)
    if not shown:
        return Markup("")
    high = max(1.0, *(one.span.waiting for one in shown))
    label = (
        f"{name}: at most {text.count(high)} waiting {text.plural(high, 'record')} in the last {_length(shown, HEALTH)}"
    )
    area = _area(shown, lambda span: span.waiting, high)
    return _drawn(shown, HEALTH, label + _attention(shown, HEALTH), Markup('<polygon points="{}"/>').format(area))


def day_charts(spans: Sequence[Span]) -> Markup:
    """Return the last day with labelled axes: waiting records, then the rates in and out."""
    return _charts(spans, DAY)


def quarter_charts(spans: Sequence[Span]) -> Markup:
    """Return the last 15 minutes, as ``day_charts`` has the last day."""
    return _charts(spans, QUARTER)


def _charts(spans: Sequence[Span], period: _Period) -> Markup:
    shown = _placed(spans, period)
    if not shown:
        return Markup("")
    waiting = max(1.0, *(one.span.waiting for one in shown))
    fastest = max(rate for one in shown for rate in (one.span.into, one.span.out)) or 1.0
    area = Markup('<polygon points="{}"/>').format(_area(shown, lambda span: span.waiting, waiting))
    lines = Markup('<polyline class="into" points="{}"/><polyline class="out" points="{}"/>').format(
        _steps(shown, lambda span: span.into, fastest), _steps(shown, lambda span: span.out, fastest)
    )
    length = _length(shown, period)
    most = f"{text.count(waiting)} waiting {text.plural(waiting, 'record')}"
    backlog = f"Backlog: at most {most} in the last {length}{_attention(shown, period)}"
    rates = (
        f"Records per second: in at most {text.rate(max(one.span.into for one in shown))}, "
        f"out at most {text.rate(max(one.span.out for one in shown))} in the last {length}"
    )
    bands = [flow for flow in STATES if flow.needs_attention and any(one.span.state is flow for one in shown)]
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
        _with_axes("Waiting records", _drawn(shown, period, backlog, area), text.count(waiting), period)
        + _with_axes("Records per second", _drawn(shown, period, rates, lines), text.rate(fastest), period)
        + Markup('<ul class="legend">{}</ul>').format(legend)
    )


def _with_axes(title: str, drawing: Markup, high: str, period: _Period) -> Markup:
    labels = Markup("").join(Markup('<span class="x at{}">{}</span>').format(*one) for one in period.labels)
    return Markup(
        '<div class="chart"><div class="quiet">{}</div><div class="plot"><span class="y top">{}</span>'
        '<span class="y">0</span>{}{}</div></div>'
    ).format(title, high, drawing, labels)


def _drawn(shown: Sequence[_Placed], period: _Period, label: str, shapes: Markup) -> Markup:
    bands = Markup("").join(
        Markup('<rect class="{}" x="{}" y="0" width="{}" height="{}"/>').format(_word(state), at, width, DAY_HEIGHT)
        for state, at, width in _bands(shown)
    )
    return Markup(
        '<svg class="day" role="img" viewBox="0 0 {w} {h}" preserveAspectRatio="none"><title>{label}</title>'
        "{bands}{shapes}</svg>"
    ).format(w=period.size, h=DAY_HEIGHT, label=label, bands=bands, shapes=shapes)


def _bands(shown: Sequence[_Placed]) -> Iterator[tuple[Flow, int, int]]:
    """Yield the states that need attention, each with its place and its width."""
    state, begin, end = Flow.IDLE, 0, 0
    for one in shown:
        if one.span.state is not state or one.at != end:
            if state.needs_attention:
                yield state, begin, end - begin
            state, begin = one.span.state, one.at
        end = one.at + one.width
    if state.needs_attention:
        yield state, begin, end - begin


def _placed(spans: Sequence[Span], period: _Period) -> list[_Placed]:
    """Return the spans of a period with their places; the newest is at the right end."""
    if not spans:
        return []
    begin = spans[-1].number - period.size + 1
    recent = [span for span in spans if span.number >= begin]
    after = [*(span.number for span in recent[1:]), recent[-1].number + 1]
    return [
        _Placed(span.number - begin, next_one - span.number if next_one - span.number <= period.reach else 1, span)
        for span, next_one in zip(recent, after, strict=True)
    ]


def _steps(shown: Sequence[_Placed], value: Callable[[Span], float], high: float) -> str:
    points: list[str] = []
    for one in shown:
        top = DAY_HEIGHT - 1 - value(one.span) / high * (DAY_HEIGHT - 2)
        points += [f"{one.at},{top:.1f}", f"{one.at + one.width},{top:.1f}"]
    return " ".join(points)


def _area(shown: Sequence[_Placed], value: Callable[[Span], float], high: float) -> str:
    end = shown[-1].at + shown[-1].width
    return f"{shown[0].at},{DAY_HEIGHT} {_steps(shown, value, high)} {end},{DAY_HEIGHT}"


def _length(shown: Sequence[_Placed], period: _Period) -> str:
    return text.duration(sum(one.width for one in shown) * period.length_s)


def _attention(shown: Sequence[_Placed], period: _Period) -> str:
    """Return the states that needed attention, and for how long."""
    found = [one for one in shown if one.span.state.needs_attention]
    states = [state.value for state in STATES if any(one.span.state is state for one in found)]
    seconds = sum(one.width for one in found) * period.length_s
    return f"; {', '.join(states)} for {text.duration(seconds)}" if states else ""


def _word(state: Flow) -> str:
    """Return a state as the name of a class of the style."""
    return state.value.replace(" ", "-")
