"""Types of options for sizes and durations, with bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

from forebay.text.quantities import bytes_of, seconds_of

N = TypeVar("N", int, float)


def size(low: int = 0, high: int | None = None) -> Callable[[str | int], int]:
    """Return the parser of an option for a size within bounds."""
    return lambda text: _parsed(bytes_of, text, low, high, " bytes")


def duration(low: float = 0.0, high: float | None = None, *, unit_s: float = 1.0) -> Callable[[str | float], float]:
    """Return the parser of an option for a duration within bounds, in units of ``unit_s``."""
    unit = " s" if unit_s == 1 else ""
    return lambda text: _parsed(lambda typed: seconds_of(typed, unit_s) / unit_s, text, low, high, unit)


def _parsed(parse: Callable[[str], N], text: object, low: N, high: N | None, unit: str) -> N:
    try:
        value = parse(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if value < low or (high is not None and value > high):
        bounds = f"{low} to {high}" if high is not None else f"at least {low}"
        raise typer.BadParameter(f"{text!r}: must be {bounds}{unit}")
    return value
