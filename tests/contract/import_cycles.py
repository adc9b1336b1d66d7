"""Import cycles: modules that import each other, directly or through others, found from the source.

Imports under ``TYPE_CHECKING`` and inside functions count: parts that know each other's types are not apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.support.rules.imports import imports, modules

Graph = Mapping[str, frozenset[str]]


def graph_of(roots: Iterable[Path]) -> Graph:
    """Return the modules below some source roots, each with those it imports."""
    sources = {module: (path, is_package) for root in roots for module, is_package, path in modules(root)}

    def targets(module: str) -> Iterator[str]:
        path, is_package = sources[module]
        for item in imports(ast.parse(path.read_text(encoding="utf-8")), module, is_package=is_package):
            for name in (item.name, item.name.rpartition(".")[0]):
                if name in sources:
                    yield name
                    break

    return {module: frozenset(targets(module)) - {module} for module in sources}


def cycles(graph: Graph) -> list[frozenset[str]]:
    """Return the groups of two or more modules of which each reaches every other one."""
    reached = {module: _reached(graph, module) for module in graph}
    groups = {frozenset(other for other in reached[module] if module in reached[other]) for module in graph}
    return sorted((group for group in groups if len(group) > 1), key=sorted)


def _reached(graph: Graph, start: str) -> frozenset[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for target in graph[waiting.pop()]:
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return frozenset(seen)
