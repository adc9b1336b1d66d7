"""Fields of a Spark schema, from its JSON form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def spark_fields(document: str) -> Iterator[tuple[str, str]]:
    """Yield name and type of each field; parts of a nested one have names with dots.

    Raises ``ValueError``, ``KeyError``, ``TypeError``, ``AttributeError`` or ``RecursionError`` for another document.
    """
    return _fields(json.loads(document), "")


def _fields(kind: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for field in kind["fields"]:
        path, of = prefix + field["name"], field["type"]
        if isinstance(of, str):
            yield path, of
            continue
        yield path, of["type"]
        element = of if of["type"] == "struct" else of.get("elementType") or of.get("valueType")
        if isinstance(element, dict) and element["type"] == "struct":
            yield from _fields(element, path + ".")
        elif isinstance(element, str):
            yield path + ".element", element
