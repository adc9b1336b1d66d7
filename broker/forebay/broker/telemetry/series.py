"""Bound on the series of an instrument, and the overflow series of the rest.

Names of sinks and subscriptions are the users', so series are bounded here: the first ones have attributes of their
own, all others share one marked as OpenTelemetry marks an overflow. Sums stay true, places are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from opentelemetry.metrics import Observation

SERIES_MAX: Final = 2_000
"""Series of one instrument with attributes of their own; the default of the SDK."""

SEEN_MAX: Final = 10_000
"""Different series of one gauge in the life of a process: the SDK releases none of them."""

SYSTEM: Final = "messaging.system"

Attributes = Mapping[str, str | bool]
OVERFLOW: Final[Attributes] = {"otel.metric.overflow": True}


class Series:
    """Attribute sets of one instrument by the values of its attributes, each created once. One thread."""

    def __init__(self, *names: str, series_max: int = SERIES_MAX) -> None:
        self._names = names
        self._series_max = series_max
        self._made: dict[tuple[str, ...], Attributes] = {}

    def of(self, values: tuple[str, ...]) -> Attributes:
        """The attributes of these values, in the order of the names."""
        found = self._made.get(values)
        if found is None:
            if len(self._made) >= self._series_max:
                return OVERFLOW
            found = self._made[values] = attributes(dict(zip(self._names, values, strict=True)))
        return found


def attributes(given: Mapping[str, str]) -> Attributes:
    """Attributes of a measurement, with the system's."""
    return {SYSTEM: "forebay", **given}


class Seen:
    """Series that a gauge has had. The SDK would replace the values of further ones by each other."""

    def __init__(self, *, seen_max: int = SEEN_MAX) -> None:
        self._max = seen_max
        self._series: set[tuple[str, ...]] = set()

    def admits(self, values: tuple[str, ...]) -> bool:
        """Return True if the gauge has had the series of these attributes, or may have one more."""
        if values in self._series:
            return True
        if len(self._series) >= self._max:
            return False
        self._series.add(values)
        return True


class Folded:
    """Observations of a gauge: the first points as they are, all others folded into one."""

    def __init__(self, fold: Callable[[Iterable[float]], float], seen: Seen, *, series_max: int | None = None) -> None:
        """``series_max``: points that keep their attributes; by default as many as an instrument may have."""
        self._fold = fold
        self._seen = seen
        self._series_max = SERIES_MAX if series_max is None else series_max
        self._shown: list[Observation] = []
        self._rest: list[float] = []
        self._examined = 0

    @property
    def is_full(self) -> bool:
        """Every point from now on is folded."""
        return self._examined >= self._series_max

    def add(self, given: Mapping[str, str], value: float, *, foldable: bool = True) -> None:
        """Add a point; one that is not ``foldable`` is left out where it cannot keep its attributes."""
        full = self.is_full
        self._examined += 1
        if full or not self._seen.admits(tuple(given.values())):
            if foldable:
                self._rest.append(value)
        else:
            self._shown.append(Observation(value, attributes(given)))

    def add_rest(self, value: float) -> None:
        """Take points that were folded before."""
        self._rest.append(value)

    def observations(self) -> list[Observation]:
        """Return all of them."""
        rest = [Observation(self._fold(self._rest), OVERFLOW)] if self._rest else []
        return [*self._shown, *rest]
