"""Commands with the options that all of them share.

``--wait`` is an option of every command that calls a broker. It is added here, so that no command repeats it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from forebay.cli.contact import GIVEN, Given
from forebay.cli.quantities import duration

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

_WAIT = inspect.Parameter("wait", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Wait)


class Command(TyperCommand):
    """Command that notes the source of the broker's address."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        source = ctx.get_parameter_source("endpoint")
        GIVEN.set(Given(origin="" if source is None else source.name, wait_s=ctx.params.get("wait")))
        return super().invoke(ctx)


class Commands(typer.Typer):
    """Group of commands with the shared options."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Register a command, as Typer does."""

        def register(function: F) -> F:
            super(Commands, self).command(name, cls=Command, **options)(_with_shared_options(function))
            return function

        return register


def _with_shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function, eval_str=True)
    if "endpoint" not in signature.parameters:
        return function

    @wraps(function)
    def command(wait: float | None, **given: Any) -> Any:
        del wait  # the class of the command has it
        return function(**given)

    command.__signature__ = signature.replace(parameters=[*signature.parameters.values(), _WAIT])  # type: ignore[attr-defined]  # read by `inspect`
    return command
