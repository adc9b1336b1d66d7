"""Installation of this distribution: its version, and the command that adds an optional part to it."""

from __future__ import annotations

import json
import shlex
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import Final
from urllib.parse import unquote, urlsplit

NAME: Final = "forebay"


@cache
def own_version() -> str:
    """Return the version of this installation; ``unknown`` for a folder on the path without metadata."""
    try:
        return version(NAME)
    except PackageNotFoundError:
        return "unknown"


def install_command(extra: str) -> str:
    """Return the pip command that adds an extra to this installation.

    A distribution that was installed from a directory, an archive or a repository is named by that place, as pip has
    recorded it (``direct_url.json``, PEP 610); any other by its name in the package index.
    """
    try:
        recorded = distribution(NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        recorded = None
    return f"pip install {_requirement(json.loads(recorded) if recorded else {}, extra)}"


def _requirement(origin: dict[str, object], extra: str) -> str:
    url, directory, repository = str(origin.get("url", "")), origin.get("dir_info"), origin.get("vcs_info")
    if not url:
        return shlex.quote(f"{NAME}[{extra}]")
    if isinstance(directory, dict):
        place = shlex.quote(f"{unquote(urlsplit(url).path)}[{extra}]")
        return f"--editable {place}" if directory.get("editable") else place
    if isinstance(repository, dict):
        url = f"{repository.get('vcs')}+{url}@{repository.get('commit_id')}"
    return shlex.quote(f"{NAME}[{extra}] @ {url}")
