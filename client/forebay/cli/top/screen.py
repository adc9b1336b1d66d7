"""Screen of `forebay top`: a pure function of figures, pressed keys and the size of the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from forebay.cli.output import Styled, bytes_text, cell_text, seconds_text
from forebay.cli.top.views import BELOW, VIEWS, Column, View
from forebay.state.numbers import counted, rate
from forebay.text import visible

if TYPE_CHECKING:
    from forebay.cli.top.poller import Sample

HEAD_LINES: Final = 4
FOOT_LINES: Final = 1
PAGE: Final = 10
"""Rows of the keys for pages."""

HELP: Final = "1-3 view  ↑↓ row  Enter open  Esc back  s sort  r reverse  / filter  q quit"
FILTER_MAX: Final = 60
NAME_MIN: Final = 8
"""Characters of a name that are shown in the narrowest terminal."""


@dataclass(frozen=True, slots=True)
class State:
    """Choices of the user."""

    view: str = "sinks"
    about: str = ""
    """Name that a view below is about; empty for the views themselves."""

    order: str = ""
    """Column of the order; empty for that of the view."""

    is_reversed: bool = False
    filter: str = ""
    is_typing: bool = False
    """The filter is being typed."""

    selected: str = ""
    """Name of the selected row; empty for the first one."""

    is_paused: bool = False
    is_over: bool = False


def view_of(state: State) -> View:
    """Return the view on the screen."""
    return BELOW[VIEWS[state.view].below] if state.about else VIEWS[state.view]


def rows_of(sample: Sample, state: State) -> list[Any]:
    """Return the rows of the view, filtered and in order."""
    if sample.figures is None:
        return []
    view = view_of(state)
    wanted = state.filter.lower()
    found = [row for row in view.rows(sample.figures, state.about) if wanted in view.text_of(row).lower()]
    column = _order(view, state)
    # A name is sorted from A on, a number or a state from the highest on.
    by_name = column is view.columns[0]
    return sorted(sorted(found, key=view.name_of), key=column.key, reverse=by_name == state.is_reversed)


def pressed(state: State, key: str, sample: Sample, width: int) -> State:
    """Return the choices after a key."""
    if state.is_typing:
        return _typed(state, key)
    view = view_of(state)
    rows = rows_of(sample, state)
    match key:
        case "q":
            return replace(state, is_over=True)
        case "1" | "2" | "3":
            return State(view=list(VIEWS)[int(key) - 1], is_paused=state.is_paused)
        case "tab" | "right":
            return State(view=_next(list(VIEWS), state.view, 1), is_paused=state.is_paused)
        case "left":
            return State(view=_next(list(VIEWS), state.view, -1), is_paused=state.is_paused)
        case "up" | "k":
            return _moved(state, rows, -1)
        case "down" | "j":
            return _moved(state, rows, 1)
        case "page up":
            return _moved(state, rows, -PAGE)
        case "page down":
            return _moved(state, rows, PAGE)
        case "home":
            return _moved(state, rows, -len(rows))
        case "end":
            return _moved(state, rows, len(rows))
        case "enter" if rows and view.below:
            chosen = rows[_index(state, rows)]
            return replace(state, about=view.opens(chosen), selected="", order="", is_reversed=False, filter="")
        case "escape" | "backspace":
            return replace(state, about="", selected="", order="", is_reversed=False, filter="")
        case "s" | "S":
            names = [column.name for column in _shown(view, width)]
            step = 1 if key == "s" else -1
            return replace(state, order=_next(names, _order(view, state).name, step), is_reversed=False)
        case "r":
            return replace(state, is_reversed=not state.is_reversed)
        case "/":
            return replace(state, is_typing=True)
        case "p":
            return replace(state, is_paused=not state.is_paused)
        case _:
            return state


def rendered(sample: Sample, state: State, *, endpoint: str, now: datetime, width: int, height: int) -> RenderableType:
    """Return the screen."""
    view = view_of(state)
    rows = rows_of(sample, state)
    room = max(1, height - HEAD_LINES - FOOT_LINES)
    at = _index(state, rows)
    first = max(0, min(at - room + 1, len(rows) - room)) if at >= room else 0
    lines: list[RenderableType] = [
        _line(_title(sample, endpoint, now), width),
        _line(_resources(sample), width),
        _line(_tabs(state, view, len(rows)), width),
    ]
    lines.append(_table(view, state, rows[first : first + room], at - first, width))
    used = HEAD_LINES + min(room, len(rows))
    lines += [Text("")] * max(0, height - FOOT_LINES - used)
    lines.append(_line(_foot(state), width))
    return Group(*lines)


def _typed(state: State, key: str) -> State:
    if key == "enter":
        return replace(state, is_typing=False)
    if key == "escape":
        return replace(state, is_typing=False, filter="")
    if key == "backspace":
        return replace(state, filter=state.filter[:-1])
    return replace(state, filter=(state.filter + key)[:FILTER_MAX]) if len(key) == 1 else state


def _next(names: Sequence[str], name: str, step: int) -> str:
    return names[(names.index(name) + step) % len(names)] if name in names else names[0]


def _index(state: State, rows: Sequence[Any]) -> int:
    """Return the place of the selected row; 0 if it is not there any more."""
    view = view_of(state)
    return next((at for at, row in enumerate(rows) if view.name_of(row) == state.selected), 0)


def _moved(state: State, rows: Sequence[Any], step: int) -> State:
    if not rows:
        return state
    at = min(len(rows) - 1, max(0, _index(state, rows) + step))
    return replace(state, selected=view_of(state).name_of(rows[at]))


def _order(view: View, state: State) -> Column:
    name = state.order or view.order
    return next((column for column in view.columns if column.name == name), view.columns[0])


def _shown(view: View, width: int) -> list[Column]:
    return [column for column in view.columns if column.least_width <= width]


def _line(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    text.no_wrap = True
    return text


def _title(sample: Sample, endpoint: str, now: datetime) -> Text:
    text = Text.assemble((" forebay top ", "reverse bold"), f" {visible(endpoint)}  ")
    if sample.figures is not None:
        states = sorted({one.state.lower() for one in sample.figures.brokers})
        text.append(", ".join(states), "green" if states == ["serving"] else "bold red")
    if sample.problem:
        since = seconds_text(max(0.0, (now - (sample.problem_since or now)).total_seconds()))
        text.append(f"  no answer for {since}: {visible(sample.problem)}", "bold red")
    elif sample.figures is None:
        text.append("waiting for the first answer", "dim")
    return text


def _resources(sample: Sample) -> Text:
    if sample.figures is None:
        return Text("")
    figures = sample.figures
    waiting = sum(max((one.pending(each.name) for each in one.subscriptions), default=0) for one in figures.sinks)
    into = sum(one.appended_per_s for one in figures.sinks)
    out = sum(max((each.settled_per_s for each in one.subscriptions), default=0.0) for one in figures.sinks)
    parts = [f" {counted(len(figures.sinks), 'sink')}", f"{waiting:,} waiting", f"{rate(into)} in", f"{rate(out)} out"]
    broker = figures.brokers[0] if len(figures.brokers) == 1 else None
    if broker is not None and broker.data_dir and broker.disk_free_bytes:
        parts.append(f"{bytes_text(broker.disk_free_bytes)} disk free")
    if broker is not None and broker.memory_limit_bytes:
        parts.append(f"memory {broker.memory_used_bytes / broker.memory_limit_bytes:.0%}")
    return Text("  ".join(parts))


def _tabs(state: State, view: View, count: int) -> Text:
    text = Text(" ")
    for number, (name, each) in enumerate(VIEWS.items(), 1):
        text.append(f"{number} {each.title}", "bold underline" if name == state.view else "dim")
        text.append("  ")
    if state.about:
        text.append(f"> {visible(state.about)} ", "bold")
    text.append(f"({count:,})")
    if state.filter or state.is_typing:
        text.append(f"  filter: {visible(state.filter)}{'_' if state.is_typing else ''}", "yellow")
    if state.is_paused:
        text.append("  paused", "magenta")
    return text


def _table(view: View, state: State, rows: Sequence[Any], at: int, width: int) -> Table:
    order = _order(view, state)
    table = Table(box=None, pad_edge=True, padding=(0, 1, 0, 0), expand=False, header_style="bold")
    shown = _shown(view, width)
    cells = [[column.cell(row) for column in shown] for row in rows]
    for index, column in enumerate(shown):
        name = column.name
        if column is order:
            name += "▲" if (column is view.columns[0]) != state.is_reversed else "▼"
        widest = max([len(name), *(len(visible(cell_text(row[index]))) for row in cells)])
        table.add_column(
            Text(name),
            justify="left" if column.is_text else "right",
            no_wrap=not column.is_cut,
            overflow="ellipsis",
            min_width=min(NAME_MIN, widest) if column.is_cut else widest,
        )
    for number, row in enumerate(cells):
        texts = [Text(visible(cell_text(cell)), style=cell.style if isinstance(cell, Styled) else "") for cell in row]
        for text in texts:  # a column that may not wrap is not narrowed either, so that each cell says it
            text.no_wrap, text.overflow = True, "ellipsis"
        table.add_row(*texts, style="reverse" if number == at else "")
    return table


def _foot(state: State) -> Text:
    if state.is_typing:
        return Text(" type the filter  Enter keep  Esc drop", style="dim")
    return Text(f" {HELP}", style="dim")
