"""Matching of columns by name as in Spark: equal names first, then names that differ only in case."""

from __future__ import annotations

from collections.abc import Sequence


def matches(wanted: Sequence[str], given: Sequence[str], *, case_sensitive: bool = False) -> dict[str, str]:
    """Return the given name for each wanted name that has a match.

    Names that differ in case match only if no other name, wanted or given, differs from them only in case.
    """
    exact = {name: name for name in wanted if name in given}
    if case_sensitive or len(exact) == len(wanted):
        return exact
    left_wanted = _by_lower_case([name for name in wanted if name not in exact])
    left_given = _by_lower_case([name for name in given if name not in exact])
    alike = {
        names[0]: left_given[lower][0]
        for lower, names in left_wanted.items()
        if len(names) == 1 and len(left_given.get(lower, ())) == 1
    }
    return exact | alike


def repeated(names: Sequence[str], *, case_sensitive: bool) -> str | None:
    """Return the first repeated name, None if all differ."""
    seen: set[str] = set()
    for name in names:
        form = name if case_sensitive else name.lower()
        if form in seen:
            return name
        seen.add(form)
    return None


def _by_lower_case(names: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.lower(), []).append(name)
    return found
