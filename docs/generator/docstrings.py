"""Docstrings of attributes, which exist in the source only."""

from __future__ import annotations

import ast
import inspect
import textwrap


def of_attributes(kind: type) -> dict[str, str]:
    """Return the docstring under each annotated attribute of ``kind``, by the name of the attribute."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, after in zip(definition.body, definition.body[1:], strict=False):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[statement.target.id] = inspect.cleandoc(str(after.value.value))
    return found
