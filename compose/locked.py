"""Extract the pinned requirements of some extras or packages from the lock file, with their hashes.

    python3 compose/locked.py broker cli > broker.txt
    pip install --require-hashes -r broker.txt

pip takes hashes for a whole file or not at all, and the lock file covers every extra: an image would get Spark with
its broker. The lock file names the dependents of a package after ``# via``. Standard library only:
it runs before anything is installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Locked:
    """One entry of the lock file."""

    name: str
    """Of the package, normalised."""

    lines: tuple[str, ...]
    """The requirement and its hashes, as pip reads them."""

    needed_by: frozenset[str]
    """Names of the packages that need it."""


def name_of(requirement: str) -> str:
    """Return the normalised name at the beginning of a requirement."""
    found = NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def entries(lock: str) -> list[Locked]:
    """Read a lock file."""
    found = []
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock):
        lines = block.splitlines()
        if not lines or not NAME.match(lines[0]):
            continue
        requirement = tuple(line for line in lines if not line.lstrip().startswith("#"))
        comments = (line.lstrip(" #").removeprefix("via").strip() for line in lines if line.lstrip().startswith("#"))
        found.append(Locked(name_of(lines[0]), requirement, frozenset(name_of(text) for text in comments if text)))
    return found


def wanted(locked: Iterable[Locked], roots: Iterable[str]) -> list[Locked]:
    """Return the entries of ``roots`` and of all that they need, in the order of the lock file."""
    everything = list(locked)
    names = set(roots)
    while more := {entry.name for entry in everything if entry.needed_by & names} - names:
        names |= more
    return [entry for entry in everything if entry.name in names]


def roots_of(project: dict[str, Any], asked: Sequence[str]) -> set[str]:
    """Return the direct dependencies for extras of the project; what is no extra is taken as a package's name.

    The base dependencies belong to every extra.
    """
    extras = project["optional-dependencies"]
    roots = {name_of(name) for name in asked if name not in extras}
    for extra in (name for name in asked if name in extras):
        roots |= {name_of(requirement) for requirement in (*project["dependencies"], *extras[extra])}
    return roots


def main(asked: Sequence[str]) -> int:
    """Write what ``asked`` names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = entries((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    roots = roots_of(project, asked)
    missing = roots - {entry.name for entry in locked}
    if missing or not asked:
        sys.stderr.write(f"locked.py: not in the lock file: {', '.join(sorted(missing)) or '(nothing was named)'}\n")
        return 2
    for entry in wanted(locked, roots):
        sys.stdout.write("\n".join(entry.lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
