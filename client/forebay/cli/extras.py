"""Optional parts of the package.

A command that needs an extra says so before it does anything: one sentence that can be pasted into a shell.
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
    "pyarrow": "spark",
    "pyspark": "spark",
    "plotly": "demo",
    "psutil": "demo",
    "rich": "cli",
    "starlette": "demo",
    "typer": "cli",
    "uvicorn": "demo",
}
"""Extra that installs a module, by the name of the module or of a parent of it."""


class MissingExtra(Exception):
    """An optional part is not installed. Install the extra that it names."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an optional part of Forebay: {install_command(extra)}")
        self.extra = extra


@contextmanager
def needed_for(purpose: str, extra: str) -> Iterator[None]:
    """Turn a failed import inside the block into a `MissingExtra`.

    ``extra`` is named when the missing module is not in the table. A module of Forebay's own that fails to
    import for another reason is a defect and passes through.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.startswith("forebay.") and not any(missing == part for part in PACKAGE_EXTRAS):
            raise
        raise MissingExtra(purpose, _extra_of(missing) or extra) from error


def require(purpose: str, modules: Iterable[str]) -> None:
    """Raise a `MissingExtra` that names the extras of all ``modules`` that are not installed; import none of them."""
    missing = sorted({PACKAGE_EXTRAS[module] for module in modules if find_spec(module) is None})
    if missing:
        raise MissingExtra(purpose, ",".join(missing))


def _extra_of(module: str) -> str | None:
    while module:
        if module in PACKAGE_EXTRAS:
            return PACKAGE_EXTRAS[module]
        module = module.rpartition(".")[0]
    return None
