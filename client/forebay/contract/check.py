"""One check of the contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forebay.contract.trial import Trial


@dataclass(frozen=True, slots=True)
class Check:
    """One property of the contract."""

    area: str
    """Part of the contract."""

    name: str
    """The property, in words; unique in its area."""

    act: Callable[[Trial], None]
    """Test of the property. It raises `Violation`, or the error of a call that fails unexpectedly."""
