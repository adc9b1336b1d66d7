"""Commands with the options that all of them share.

``--utc`` is an option of every command, and ``--wait`` of those that call a broker. They are added here, so that no
command repeats them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC
from functools import wraps
from typing import Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperCommand

from forebay.cli.contact import GIVEN, Given
from forebay.cli.quantities import duration
from forebay.cli.times import ZONE

F = TypeVar("F", bound=Callable[..., Any])

Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        envvar="FOREBAY_WAIT",
        metavar="DURATION",
        parser=duration(0, 86_400),
        help="Time to wait for an unreachable broker, such as 30s; default: about a second.",
        show_default=False,
    ),
]
"""``--wait``."""

Utc = Annotated[
    bool,
    typer.Option(
        "--utc", envvar="FOREBAY_UTC", help="Times are in UTC, typed and shown; default: local.", show_default=False
    ),
]
"""``--utc``."""

EXAMPLE: Final = "Example: "
"""Beginning of an example at the end of a help."""

_WAIT = inspect.Parameter("wait", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Wait)
_UTC = inspect.Parameter("utc", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Utc)


class Command(TyperCommand):
    """Command that takes the shared options, and notes the source of the broker's address."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        source = ctx.get_parameter_source("endpoint")
        GIVEN.set(Given(origin="" if source is None else source.name, wait_s=ctx.params.get("wait")))
        ZONE.set(UTC if ctx.params.get("utc") else None)
        return super().invoke(ctx)


class Commands(typer.Typer):
    """Group of commands with the shared options."""

    def __init__(self, *, example: str, epilog: str = "", **options: Any) -> None:
        """Create a group, as Typer does; its help ends with the examples, one per line of ``example``."""
        paragraphs = [_examples(example), epilog]
        super().__init__(epilog="\n\n".join(one for one in paragraphs if one), no_args_is_help=True, **options)

    def command(self, name: str | None = None, *, example: str = "", **options: Any) -> Callable[[F], F]:
        """Register a command, as Typer does; its help ends with the examples, one per line of ``example``."""
        options["epilog"] = _examples(example)

        def register(function: F) -> F:
            super(Commands, self).command(name, cls=Command, **options)(_with_shared_options(function))
            return function

        return register


def _examples(lines: str) -> str:
    return "\n\n".join(f"{EXAMPLE}{line}" for line in lines.splitlines())


def _with_shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function, eval_str=True)
    shared = [_UTC] if "endpoint" not in signature.parameters else [_WAIT, _UTC]

    @wraps(function)
    def command(**given: Any) -> Any:
        for one in shared:  # `Command` has taken them
            del given[one.name]
        return function(**given)

    command.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *shared])  # type: ignore[attr-defined]  # read by `inspect`
    return command
