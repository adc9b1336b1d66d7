"""Programs and configurations of the tests of observability."""

from __future__ import annotations

import shutil
from typing import Final

from tests.support.processes.server import ROOT, TOOLS, required

SHIPPED: Final = ROOT / "compose" / "observability"
COMPOSE: Final = ROOT / "compose" / "compose.yaml"


def tool(name: str) -> str:
    """Return the path of a program; skips the test where it is missing, and fails it in CI."""
    found = shutil.which(name, path=str(TOOLS / "observability"))
    return required(name, found, by="test-observability", variable="FOREBAY_REQUIRE_OBSERVABILITY")
