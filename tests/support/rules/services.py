"""All services of the schema, found by their files, so that a new one is covered by every test of all rpcs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor import MethodDescriptor

import forebay.v1

FILES: Final[tuple[Any, ...]] = tuple(
    import_module(f"forebay.v1.{path.stem}_pb2")
    for path in sorted(Path(forebay.v1.__path__[0]).glob("*_service.proto"))
)
"""Generated modules of the files with a service."""

METHODS: Final[dict[str, MethodDescriptor]] = {
    f"/{service.full_name}/{method.name}": method
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""Rpcs by the path of their calls."""
