"""Extras: optional dependencies of the commands.

A command that needs a missing extra fails first, with one sentence that contains the install command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from forebay.packaging import install_command

PACKAGE_EXTRAS: Final = {
    "forebay.broker": "broker",
    "forebay.deliver": "deliver",
    "forebay.spark": "spark",
    "grpc_health": "broker",
    "grpc_reflection": "broker",
    "pydantic_settings": "broker",
    "pydantic": "broker",
    "rocksdict": "broker",
    "opentelemetry": "cli",
    "httpx2": "deliver",
    "psycopg": "postgresql",
    "jinja2": "console",
    "pyarrow": "arrow",
    "pyspark": "spark",
    "psutil": "demo",
    "rich": "cli",
    "starlette": "demo",
    "typer": "cli",
    "uvicorn": "demo",
}
"""Extra that installs a module, by the name of the module or of a parent package."""


class MissingExtra(Exception):
    """An optional dependency is not installed. Install the extra that the message names."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} requires an extra of Forebay that is not installed: {install_command(extra)}")
        self.extra = extra


@contextmanager
def needed_for(purpose: str, extra: str) -> Iterator[None]:
    """Turn a failed import inside the block into a `MissingExtra`.

    ``extra`` is the fallback for a module that is not in the table. A module of Forebay that fails to import for
    another reason is a defect; its error is not caught.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.startswith("forebay.") and not any(missing == part for part in PACKAGE_EXTRAS):
            raise
        raise MissingExtra(purpose, _extra_of(missing) or extra) from error


def require(purpose: str, modules: Iterable[str]) -> None:
    """Raise a `MissingExtra` with the extras of all ``modules`` that are missing, without importing any."""
    missing = sorted({PACKAGE_EXTRAS[module] for module in modules if find_spec(module) is None})
    if missing:
        raise MissingExtra(purpose, ",".join(missing))


def _extra_of(module: str) -> str | None:
    while module:
        if module in PACKAGE_EXTRAS:
            return PACKAGE_EXTRAS[module]
        module = module.rpartition(".")[0]
    return None
