"""Chart of a run as one HTML file: three figures, and an SVG without a script.

The file loads nothing from elsewhere. Below the line of the produced records lies one stacked area: delivered, waiting
in the broker, not yet written. Outages are bands, kills are flags. The SVG is stretched to the page; its texts are HTML
beside it, which keep their size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import floor, log10
from pathlib import Path
from typing import Final

from forebay.cli.demo.plan import Action
from forebay.cli.demo.report.backlog import down_spans, drain_s, peak_waiting
from forebay.cli.demo.report.samples import History, Sample
from forebay.cli.output import seconds_text
from forebay.state.numbers import counted

WIDTH: Final = 600
"""Width of the drawing in its own units, and the most points of a line."""

HEIGHT: Final = 240

TICKS: Final = 6
"""Largest number of labels at an axis, without the zero."""

AREAS: Final[tuple[tuple[str, str, Callable[[Sample], int]], ...]] = (
    ("delivered", "delivered", lambda sample: sample.delivered),
    ("waiting", "waiting in the broker", lambda sample: max(sample.published, sample.delivered)),
    ("unwritten", "not yet written", lambda sample: max(sample.produced, sample.published, sample.delivered)),
)
"""Class, name and upper edge of the areas, the lowest first."""

BANDS: Final = (("target", "remote system down", "target_up"), ("broker", "broker away", "broker_up"))
"""Class, name and attribute of a sample for each kind of outage."""

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fff; --quiet: #566070; --line: #d5dae1; --panel: #f4f6f9;
  --delivered: #2c8a57; --waiting: #e0992f; --unwritten: #8d9bab; --target: #a81e1e; --broker: #1c2430; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --paper: #12161c; --quiet: #a3adba; --line: #343c47;
  --panel: #1b212a; --delivered: #3f9c69; --waiting: #d08f2e; --unwritten: #66727f; --target: #ff8f8f;
  --broker: #e6eaf0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: .8rem 1rem 2rem; font: 15px/1.45 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.4rem; margin: .4rem 0 .2rem; }
p { margin: .2rem 0 .8rem; color: var(--quiet); }
dl { display: grid; grid-template-columns: repeat(3, 1fr); gap: .6rem; margin: .8rem 0 1.2rem; }
dl div { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .5rem .7rem; }
dt { color: var(--quiet); font-size: .87rem; }
dd { margin: 0; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
figure { margin: 0; }
.plot { position: relative; margin: 1.6rem 0 2.6rem 3.6rem; height: 22rem; border: solid var(--line);
  border-width: 0 0 1px 1px; }
svg { width: 100%; height: 100%; display: block; overflow: visible; }
.delivered { fill: var(--delivered); } .waiting { fill: var(--waiting); } .unwritten { fill: var(--unwritten); }
.produced { fill: none; stroke: var(--ink); stroke-width: 2; vector-effect: non-scaling-stroke; }
.grid, .kill { stroke: var(--line); stroke-width: 1; vector-effect: non-scaling-stroke; }
.kill { stroke: var(--broker); stroke-width: 1.5; }
rect.target { fill: var(--target); fill-opacity: .16; } rect.broker { fill: var(--broker); fill-opacity: .22; }
.plot span { position: absolute; font-size: .8rem; line-height: 1.2; color: var(--quiet); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.plot .y { right: 100%; padding-right: .4rem; transform: translateY(50%); }
.plot .x { top: 100%; padding-top: .3rem; transform: translateX(-50%); }
.plot .axis { top: 100%; right: 0; padding-top: 1.4rem; }
.plot .band { top: .3rem; padding: 0 .3rem; color: var(--target); font-weight: 650; white-space: normal;
  overflow-wrap: anywhere; }
.plot .flag { bottom: 100%; padding: 0 .3rem; background: var(--broker); color: var(--paper); font-weight: 650; }
ul { list-style: none; padding: 0; margin: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
li svg { width: 1.1rem; height: .8rem; display: inline-block; margin-right: .4rem; }
@media (max-width: 30rem) { dd { font-size: 1.15rem; } .plot { height: 16rem; } }
"""


def write_chart(history: History, path: Path, *, title: str, subtitle: str, lost: int) -> Path:
    """Write the chart of ``history`` to ``path``, creating folders, and return the path."""
    drained = drain_s(history)
    figures = (
        ("lost", f"{lost:,}"),
        ("peak waiting", f"{peak_waiting(history):,}"),
        ("time to drain", "none" if drained is None else seconds_text(drained)),
    )
    named = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n<p>{escape(subtitle)}</p>\n"
        f"<dl>{named}</dl>\n{_figure(history)}\n</main>\n</body>\n</html>\n",
        encoding="utf-8",
    )
    return path


def _figure(history: History) -> str:
    samples = list(_thinned(history.samples))
    length_s = max((sample.at_s for sample in samples), default=0.0) or 1.0
    high = max((AREAS[-1][2](sample) for sample in samples), default=0) or 1
    top = _ticks(high)[-1]
    kills = [event.at_s for event in history.events if event.action is Action.KILL_BROKER]
    spans = [(kind, name, down_spans(history.samples, up)) for kind, name, up in BANDS]

    def x(at_s: float) -> float:
        return WIDTH * at_s / length_s

    def y(records: float) -> float:
        return HEIGHT * (1 - records / top)

    shapes = [f'<path class="grid" d="M0 {y(tick):.1f}H{WIDTH}"/>' for tick in _ticks(high)]
    lower: Callable[[Sample], int] = _nothing
    for kind, _, upper in AREAS:
        edge = " ".join(f"{x(one.at_s):.1f},{y(upper(one)):.1f}" for one in samples)
        base = " ".join(f"{x(one.at_s):.1f},{y(lower(one)):.1f}" for one in reversed(samples))
        shapes.append(f'<polygon class="{kind}" points="{edge} {base}"/>')
        lower = upper
    line = " ".join(f"{x(one.at_s):.1f},{y(one.produced):.1f}" for one in samples)
    shapes.append(f'<polyline class="produced" points="{line}"/>')
    for kind, _, found in spans:
        shapes += [
            f'<rect class="{kind}" x="{x(begin):.1f}" y="0" width="{x(end) - x(begin):.1f}" height="{HEIGHT}"/>'
            for begin, end in found
        ]
    shapes += [f'<path class="kill" d="M{x(at):.1f} 0V{HEIGHT}"/>' for at in kills]
    labels = [f'<span class="y" style="bottom:{100 * tick / top:.1f}%">{tick:,}</span>' for tick in (0, *_ticks(high))]
    labels += [
        f'<span class="x" style="left:{100 * tick / length_s:.1f}%">{tick}</span>'
        for tick in (0, *_ticks(floor(length_s)))
        if tick <= length_s
    ]
    labels.append('<span class="axis">seconds since the first record</span>')
    labels += [
        f'<span class="band" style="left:{100 * begin / length_s:.1f}%;'
        f'max-width:{100 * (end - begin) / length_s:.1f}%">{BANDS[0][1]}</span>'
        for begin, end in spans[0][2]
    ]
    labels += [f'<span class="flag" style="left:{100 * at / length_s:.1f}%">kill</span>' for at in kills]
    drawing = (
        f'<svg role="img" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">'
        f"<title>{escape(_words(history, kills, spans))}</title>{''.join(shapes)}</svg>"
    )
    return f'<figure>\n<div class="plot">{drawing}{"".join(labels)}</div>\n{_legend(spans, kills)}\n</figure>'


def _nothing(sample: Sample) -> int:
    """Return the lower edge of the lowest area."""
    return 0


def _thinned(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Yield at most `WIDTH` samples and the last one: of each span that with the most waiting records."""
    if not samples:
        return
    step_s = (samples[-1].at_s or 1.0) / WIDTH
    chosen = samples[0]
    for sample in samples:
        if floor(sample.at_s / step_s) != floor(chosen.at_s / step_s):
            yield chosen
            chosen = sample
        elif sample.buffered >= chosen.buffered:
            chosen = sample
    yield chosen
    if chosen is not samples[-1]:
        yield samples[-1]


def _ticks(high: int) -> list[int]:
    """Return up to `TICKS` round numbers above 0 at one distance; the last one is at least ``high``."""
    raw = max(1.0, high / (TICKS - 1))
    power = 10 ** floor(log10(raw))
    step = next(int(power * factor) for factor in (1, 2, 5, 10) if power * factor >= raw)
    return list(range(step, high + step, step))


def _words(
    history: History, kills: Sequence[float], spans: Sequence[tuple[str, str, list[tuple[float, float]]]]
) -> str:
    """Return the chart in words, for readers who do not see it."""
    last = history.samples[-1] if history.samples else None
    produced, delivered = (last.produced, last.delivered) if last is not None else (0, 0)
    outages = "; ".join(f"{name} from {_spans_text(found)}" for _, name, found in spans if found) or "no outage"
    return (
        f"{counted(produced, 'record')} produced and {delivered:,} delivered over time; "
        f"at most {peak_waiting(history):,} waited; {outages}; {counted(len(kills), 'kill')} of the broker"
    )


def _spans_text(spans: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{begin:.1f} to {end:.1f} s" for begin, end in spans)


def _legend(spans: Sequence[tuple[str, str, list[tuple[float, float]]]], kills: Sequence[float]) -> str:
    box = '<svg viewBox="0 0 14 10" aria-hidden="true">{}</svg>'
    items = [
        (box.format('<path class="produced" d="M0 5H14"/>'), "produced"),
        *((box.format(f'<rect class="{kind}" width="14" height="10"/>'), name) for kind, name, _ in reversed(AREAS)),
        *(
            (box.format(f'<rect class="{kind}" width="14" height="10"/>'), f"{name}, {_spans_text(found)}")
            for kind, name, found in spans
            if found
        ),
    ]
    if kills:
        times = ", ".join(f"{at:.1f} s" for at in kills)
        items.append((box.format('<path class="kill" d="M7 0V10"/>'), f"broker killed (-9) at {times}"))
    return "<ul>" + "".join(f"<li>{sign}{escape(name)}</li>" for sign, name in items) + "</ul>"
