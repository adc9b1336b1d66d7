"""Descriptions of targets: what each is for, and its options.

A target may describe itself: its factory has an attribute ``description``, a `TargetDescription`. Of another one the
options are read from the signature of its factory, and the summary from its docstring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

F = TypeVar("F", bound=Callable[..., object])

SECRET_NAME: Final = re.compile(
    r"(?:^|[._-])(?:password|passwd|secret|token|authorization|cookie|api[._-]?key|credentials?)$", re.IGNORECASE
)
"""Names of options, and of headers, that hold a secret."""

ATTRIBUTE: Final = "description"
"""Attribute of a factory that holds its `TargetDescription`."""


@dataclass(frozen=True, slots=True)
class TargetOption:
    """Option of a target."""

    name: str
    """Name; upper-case letters are a part that the caller chooses."""

    type: str
    """``text``, ``number``, ``boolean``, ``choice``, ``duration`` or ``size``."""

    default: str | None
    """Default as text; empty for none, None for a required option."""

    allowed: str
    """Allowed values; empty for any text."""

    description: str


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """Description of a target."""

    summary: str
    options: tuple[TargetOption, ...]
    limits: str = ""
    """Limits of a batch, where they are not the usual ones."""

    complete: bool = True
    """False where the options come from a signature that accepts further ones."""


def described(description: TargetDescription) -> Callable[[F], F]:
    """Return a decorator that gives a factory its description."""

    def attach(factory: F) -> F:
        setattr(factory, ATTRIBUTE, description)
        return factory

    return attach


def description_of(factory: Callable[..., object]) -> TargetDescription:
    """Return the description of a target."""
    found = getattr(factory, ATTRIBUTE, None)
    if isinstance(found, TargetDescription):
        return found
    summary = (inspect.getdoc(factory) or "").partition("\n")[0]
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # a factory that is not written in Python
        return TargetDescription(summary, (), complete=False)
    named = [one for one in parameters if one.kind in {one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD}]
    complete = not any(one.kind is one.VAR_KEYWORD for one in parameters)
    return TargetDescription(summary, tuple(_option(one) for one in named), complete=complete)


def _option(parameter: inspect.Parameter) -> TargetOption:
    default = None if parameter.default is parameter.empty else str(parameter.default or "")
    return TargetOption(parameter.name, "text", default, "", "")
