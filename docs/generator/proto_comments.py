"""Comments of the protos: the generated code has none, so the schema's text is read line by line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PROTOS: Final = Path(__file__).resolve().parents[2] / "protos" / "forebay" / "v1"
_BLOCK: Final = re.compile(r"(service|message|enum|oneof) (\w+) \{")
_TYPE: Final = r"(?:(?:optional|repeated) )?(?:map<\w+, ?[\w.]+>|[\w.]+)"
_ELEMENT: Final = re.compile(rf"rpc (?P<rpc>\w+)\(|{_TYPE} (?P<field>\w+) = \d+|(?P<value>[A-Z][A-Z0-9_]*) = \d+")


def comments(proto: str) -> dict[str, str]:
    """Return the comment of each element of a file, by its full name without the package; the file's own is ``""``."""
    found: dict[str, str] = {}
    owners: list[str] = []
    comment: list[str] = []
    for line in (PROTOS / proto).read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("//"):
            comment.append(text.removeprefix("//").removeprefix(" "))
            continue
        if not found:
            found[""] = "\n".join(comment)
        elif block := _BLOCK.match(text):
            owners.append("" if block[1] == "oneof" else block[2])  # the fields of a oneof are the message's
            found.setdefault(_name(owners), "\n".join(comment))
        elif element := _ELEMENT.match(text):
            found[_name([*owners, element["rpc"] or element["field"] or element["value"]])] = "\n".join(comment)
        if text.endswith("}") and owners:
            owners.pop()
        comment = []
    return found


def _name(owners: list[str]) -> str:
    return ".".join(owner for owner in owners if owner)


def paragraphs(comment: str) -> str:
    """Return a comment as Markdown: a list begins after an empty line."""
    return re.sub(r"(?m)^(?!- |  |$)(.*)\n(?=- )", r"\1\n\n", comment)
