"""How many series an instrument may have, and what becomes of the rest.

Names of sinks and subscriptions are the users', so series are bounded here: the first ones have attributes of their
own, all others share one marked as OpenTelemetry marks an overflow. Sums stay true, places are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from opentelemetry.metrics import Observation

SERIES_MAX: Final = 2_000
"""Series of one instrument with attributes of their own; the default of the SDK."""

SYSTEM: Final = "messaging.system"
SINK: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
GROUP: Final = "messaging.consumer.group.name"

Attributes = Mapping[str, str | bool]
OVERFLOW: Final[Attributes] = {"otel.metric.overflow": True}


class Series:
    """Attribute sets of one instrument by the values of its attributes; each is made once. Used by one thread."""

    def __init__(self, *names: str, series_max: int = SERIES_MAX) -> None:
        self._names = names
        self._series_max = series_max
        self._made: dict[tuple[str, ...], Attributes] = {}

    def of(self, *values: str) -> Attributes:
        """The attributes of these values, in the order of the names."""
        found = self._made.get(values)
        if found is None:
            if len(self._made) >= self._series_max:
                return OVERFLOW
            found = self._made[values] = attributes(dict(zip(self._names, values, strict=True)))
        return found


def attributes(given: Mapping[str, str]) -> Attributes:
    """Attributes of a measurement, with the system's."""
    return {SYSTEM: "holdfast", **given}


def folded(
    points: Iterable[tuple[Mapping[str, str], float]],
    fold: Callable[[Iterable[float]], float],
    *,
    series_max: int = SERIES_MAX,
) -> list[Observation]:
    """Observations of a gauge: the first points as they are, the others folded into one."""
    shown: list[Observation] = []
    rest: list[float] = []
    for given, value in points:
        if len(shown) < series_max:
            shown.append(Observation(value, attributes(given)))
        else:
            rest.append(value)
    return [*shown, Observation(fold(rest), OVERFLOW)] if rest else shown
