"""Requirements of this distribution by extra, and whether installed versions meet them.

Only the forms that Forebay itself uses are read: a name with extras, bounds with ``>=``, ``<`` and ``==`` on release
numbers, and a marker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_FORM: Final = re.compile(r"\s*([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_PLATFORM: Final = re.compile(r"sys_platform\s*!=\s*['\"]([^'\"]+)['\"]")
_BOUND: Final = re.compile(r"(>=|<=|==|!=|<|>|~=)\s*([0-9][0-9A-Za-z.]*)")
_NUMBER: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Requirement:
    """Requirement of an extra."""

    name: str
    """Name of the distribution."""

    bounds: str
    """Bounds as written, such as ``>=2.2,<4``."""

    def is_met_by(self, version: str) -> bool:
        """Return True if a version is within the bounds."""
        return all(_fits(version, operator, bound) for operator, bound in _BOUND.findall(self.bounds))


def by_extra(requirements: Iterable[str], platform: str) -> Mapping[str, tuple[Requirement, ...]]:
    """Return the requirements of each extra on a platform; those of the base are under the empty name."""
    found: dict[str, list[Requirement]] = {}
    for text in requirements:
        form = _FORM.fullmatch(text)
        if form is None:
            continue
        name, bounds, marker = form[1], form[2].strip(), form[3] or ""
        excluded = _PLATFORM.search(marker)
        if excluded is not None and excluded[1] == platform:
            continue
        extra = _EXTRA.search(marker)
        found.setdefault(extra[1] if extra is not None else "", []).append(Requirement(name, bounds))
    return {extra: tuple(each) for extra, each in sorted(found.items())}


def _fits(version: str, operator: str, bound: str) -> bool:
    have, need = _release(version), _release(bound)
    width = max(len(have), len(need))
    have, need = have + (0,) * (width - len(have)), need + (0,) * (width - len(need))
    match operator:
        case ">=":
            return have >= need
        case "<=":
            return have <= need
        case "<":
            return have < need
        case ">":
            return have > need
        case "!=":
            return have != need
        case "==":
            return have == need
        case _:
            return have >= need and have[: len(_release(bound)) - 1] == need[: len(_release(bound)) - 1]


def _release(version: str) -> tuple[int, ...]:
    """Return the release numbers: ``4.1.0rc1`` is 4, 1, 0."""
    numbers: list[int] = []
    for part in version.split("+", maxsplit=1)[0].split("."):
        digits = _NUMBER.match(part)
        if digits is None:
            break
        numbers.append(int(digits[0]))
        if digits[0] != part:
            break
    return tuple(numbers)
