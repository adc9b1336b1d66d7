"""`forebay target ...`: targets of the deliverer, and their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.command import Commands
from forebay.cli.completion import target_names
from forebay.cli.extras import needed_for
from forebay.cli.options import OutputForm
from forebay.cli.output import Column, Output, rows_of, write_json, write_line, write_table
from forebay.state.numbers import counted
from forebay.text.quantities import duration_text, size_text

if TYPE_CHECKING:
    from forebay.deliver.targets.options import TargetOption

target_app = Commands(
    help="List and show the targets of `forebay deliver`.",
    example="forebay target list\nforebay target show http",
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of the target, or module:attribute.", show_default=False, autocompletion=target_names
    ),
]


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    origin: str
    """``built in``, or the package that registers it."""

    usable: bool
    summary: str
    """Summary, or the reason that it is not usable."""


@target_app.command("list", example="forebay target list")
def list_targets(output: OutputForm = Output.TABLE) -> None:
    """List the targets: those of Forebay, and those of installed packages."""
    with needed_for("the deliverer", "deliver"):
        from forebay.deliver.targets.registry import names
    columns: dict[str, Column[_Row]] = {"target": "name", "from": "origin", "usable": "usable", "": "summary"}
    rows = [_row(name) for name in names()]
    if output is Output.JSON:
        write_json(rows)
    else:
        write_table(counted(len(rows), "target"), tuple(columns), rows_of(rows, columns))


def _row(name: str) -> _Row:
    from forebay.deliver.errors import TargetUnusable
    from forebay.deliver.targets.options import description_of
    from forebay.deliver.targets.registry import load, origin

    try:
        return _Row(name, origin(name), True, description_of(load(name)).summary)
    except TargetUnusable as error:
        return _Row(name, origin(name), False, str(error))


@target_app.command(example="forebay target show http")
def show(name: Name, output: OutputForm = Output.TABLE) -> None:
    """Show the options of a target with their types, defaults and allowed values."""
    with needed_for("the deliverer", "deliver"):
        from forebay.deliver.targets.options import description_of
        from forebay.deliver.targets.registry import load, origin
    found = description_of(load(name))
    if output is Output.JSON:
        facts = {"name": name, "origin": origin(name), "summary": found.summary, "limits": found.limits}
        write_json({**facts, "options": found.options, "complete": found.complete})
        return
    write_line(f"{name}: {found.summary}" if found.summary else name)
    if found.limits:
        write_line(f"Batches: {found.limits}")
    columns = ("option", "type", "default", "allowed", "")
    write_table(f"options of {name}, each as -O NAME=VALUE", columns, [_cells(one) for one in found.options])
    if not found.complete:
        write_line("The target accepts further options, which it does not list.")


def _cells(option: TargetOption) -> tuple[object, ...]:
    return (option.name, option.type, _default(option), option.allowed, option.description)


def _default(option: TargetOption) -> str:
    """Return the default as it can be typed."""
    if option.default is None:
        return "required"
    texts: dict[str, Callable[[str], str]] = {
        "duration": lambda text: duration_text(float(text)),
        "size": lambda text: size_text(int(text)),
    }
    try:
        return texts.get(option.type, str)(option.default)
    except ValueError:  # a target of another package describes it in words
        return option.default
