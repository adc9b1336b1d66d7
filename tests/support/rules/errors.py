"""Reader of source code that finds where the broker raises each reason, and with which facts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.errors.reasons import Reason

FORWARDING: Final = {"InvalidPage": Reason.INVALID_PAGE}
"""Classes of errors that pass the facts of their caller on."""

VALUE: Final = "InvalidValue"
"""Class of errors of a field, which is its only fact."""

MADE: Final = re.compile(rf"\b(?:BrokerError|super\(\)\.__init__|{'|'.join([VALUE, *FORWARDING])})\(")
"""Beginning of a call that makes an error."""


@dataclass(frozen=True, slots=True)
class Raised:
    """One place that makes an error of a reason."""

    reason: Reason
    place: str
    has_problem: bool
    """True if the text of the problem at hand is given."""

    facts: frozenset[str]
    """Names of the facts, with those that are given under a condition only."""


def raised(root: Path) -> Iterator[Raised]:
    """Yield every place below ``root`` that makes a ``BrokerError``."""
    for path in sorted(root.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        # Most files raise nothing, and every process of a parallel run reads all of them.
        tree = ast.parse(source if MADE.search(source) else "")
        for scope in ast.walk(tree):
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
                for call in _calls(scope):
                    reason = _reason(call)
                    if reason is not None and not _forwards(call):
                        given = len(call.args) + (_name(call.func) in FORWARDING)
                        place = f"{path.relative_to(root)}:{call.lineno}"
                        field = {"field"} if _name(call.func) == VALUE else set()
                        yield Raised(reason, place, given > 1, frozenset({*_facts(call, scope), *field}))


def _calls(scope: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of a function, without those of functions inside it."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _calls(node)


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


def _reason(call: ast.Call) -> Reason | None:
    if _name(call.func) in FORWARDING:
        return FORWARDING[_name(call.func)]
    match call.args:
        case [ast.Attribute(value=ast.Name(id="Reason"), attr=name), *_]:
            return Reason[name] if ast.unparse(call.func) in {"BrokerError", VALUE, "super().__init__"} else None
    return None


def _forwards(call: ast.Call) -> bool:
    return any(kw.arg is None and ast.unparse(kw.value) == "facts" for kw in call.keywords)


def _facts(call: ast.Call, scope: ast.AST) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg
        else:
            yield from _keys(ast.unparse(keyword.value), scope)


def _keys(variable: str, scope: ast.AST) -> Iterator[str]:
    """Yield the keys of the dictionaries that a function assigns to a variable."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == variable for target in node.targets):
            for inner in ast.walk(node.value):
                if isinstance(inner, ast.Dict):
                    yield from (key.value for key in inner.keys if isinstance(key, ast.Constant))  # type: ignore[misc]
