"""Reference of the command line, from the tree of commands."""

from __future__ import annotations

import inspect
import re
from typing import Any

import typer

from docs.generator.table import one_line, table
from forebay.cli.app import app
from forebay.cli.command import EXAMPLE


def markdown() -> str:
    """Return a section for the program and for each command."""
    root: Any = typer.main.get_command(app)
    return "\n\n".join(_sections(root, "forebay"))


def _sections(command: Any, name: str) -> list[str]:
    parts = [f"## {name}", _prose(command.help or ""), f"    {name} {_usage(command)}".rstrip()]
    options = [_option(found) for found in command.params if found.param_type_name == "option" and not _common(found)]
    arguments = [_argument(found) for found in command.params if found.param_type_name == "argument"]
    if arguments:
        parts.append(table(("argument", "required", "description"), arguments))
    if options:
        parts.append(table(("option", "default", "variable", "description"), options))
    if command.epilog:
        parts.append(_end(command.epilog))
    for below, found in sorted(getattr(command, "commands", {}).items()):
        if not found.hidden:
            parts += _sections(found, f"{name} {below}")
    return parts


def _end(text: str) -> str:
    """Return the end of a help: its examples as code, and its prose."""
    paragraphs = text.split("\n\n")
    examples = [f"    {line.removeprefix(EXAMPLE)}" for line in paragraphs if line.startswith(EXAMPLE)]
    prose = [_prose(line) for line in paragraphs if not line.startswith(EXAMPLE)]
    return "\n\n".join([*(["Example:", "\n".join(examples)] if examples else []), *prose])


def _usage(command: Any) -> str:
    if getattr(command, "commands", None):
        return "[OPTIONS] COMMAND [ARGS]..."
    arguments = [found for found in command.params if found.param_type_name == "argument"]
    return " ".join(["[OPTIONS]", *(_metavar(found) for found in arguments)])


def _metavar(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    return name if parameter.required else f"[{name}]"


def _common(parameter: Any) -> bool:
    return parameter.hidden or "--help" in parameter.opts or "completion" in parameter.name


def _argument(parameter: Any) -> tuple[str, str, str]:
    return f"`{_metavar(parameter).strip('[]')}`", "yes" if parameter.required else "no", _prose(parameter.help or "")


def _option(parameter: Any) -> tuple[str, str, str, str]:
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    value = f" `{parameter.metavar}`" if parameter.metavar else ""
    said = _prose(parameter.help or "")
    named = re.search(r" ?\[(FOREBAY_\w+)\]$", said)
    variable = named[1] if named else parameter.envvar if isinstance(parameter.envvar, str) else ""
    text = said[: named.start()] if named else said
    return f"{names}{value}", _default(parameter), f"`{variable}`" if variable else "", text


def _default(parameter: Any) -> str:
    value = parameter.default
    if value is None or value is False or callable(value) or value in ((), [], ""):
        return ""
    return f"`{getattr(value, 'value', value)}`"


def _prose(text: str) -> str:
    """Return a help text as Markdown: without rich's escapes, and on one line."""
    return one_line(re.sub(r"\\\[", "[", inspect.cleandoc(text)).replace("<", "&lt;"))
