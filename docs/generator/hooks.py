"""Hooks of MkDocs: generated blocks are filled in, and the text is adapted to the site.

The documents are written for two readers, a code host and the site. On the site the attributes of a fenced block that
only tests use are removed, and links to files of the repository outside of ``docs/`` become the names of these files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from docs.generator.blocks import fill

DOCS: Final = Path(__file__).resolve().parents[1]
ROOT: Final = DOCS.parent
_FENCE: Final = re.compile(r"^(?P<start>`{3,}\w+) run\b[^\n`]*$", re.M)
_LINK: Final = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Return the text of a page as the site shows it."""
    return fill(for_site(markdown, DOCS / page.file.src_path))


def for_site(markdown: str, path: Path) -> str:
    """Return the text of the document at ``path`` without what only tests and code hosts understand."""

    def outside(match: re.Match[str]) -> str:
        target = match["target"]
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            return match[0]
        file = (path.parent / target).resolve()
        if file.is_relative_to(DOCS) or not file.is_relative_to(ROOT):
            return match[0]
        name = f"`{file.relative_to(ROOT)}`"
        text = match["text"]
        return name if text.strip("`") in {file.name, name.strip("`")} else f"{text} ({name})"

    return _LINK.sub(outside, _FENCE.sub(r"\g<start>", markdown))
