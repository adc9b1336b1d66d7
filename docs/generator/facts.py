"""Names of the facts that an error of the broker carries, read from its constructor."""

from __future__ import annotations

import ast
import inspect
import textwrap

from forebay.broker.core.errors import BrokerError


def facts_of(kind: type[BrokerError]) -> list[str]:
    """Return the names of the facts of ``kind``, in the order of its constructor."""
    for owner in kind.__mro__:
        if owner is BrokerError:
            break
        if "__init__" in vars(owner):
            tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
            return [keyword.arg for call in _super_calls(tree) for keyword in call.keywords if keyword.arg]
    return []


def _super_calls(tree: ast.AST) -> list[ast.Call]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"]
