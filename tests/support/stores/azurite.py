"""Azurite on loopback: Azure Blob Storage as Microsoft emulates it."""

from __future__ import annotations

import base64
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.support.processes.server import TOOLS
from tests.support.stores.server import StoreServer, answers, required

ACCOUNT = "billing"
CONTAINER = "positions"


class AzuriteServer(StoreServer):
    """One account. It writes its metadata when it is asked to end, not with each request."""

    good: Mapping[str, str] = {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(b"azure-secret-1" * 4).decode(),
    }
    wrong: Mapping[str, str] = {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(b"azure-wrong-22" * 4).decode(),
    }
    scheme: ClassVar = "azure-blob"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        program = TOOLS / "azurite" / "node_modules" / ".bin" / "azurite-blob"
        self._program = required("Azurite", str(program) if program.exists() else None)
        required("Node.js", shutil.which("node"))

    def environment(self) -> dict[str, str]:
        key = self.good["AZURE_STORAGE_ACCOUNT_KEY"]
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "AZURITE_ACCOUNTS": f"{ACCOUNT}:{key}"}

    def command(self) -> list[str]:
        return [
            *(self._program, "--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", "data"),
            *("--silent", "--disableTelemetry", "--skipApiVersionCheck"),
        ]

    def is_ready(self) -> bool:
        return answers(self.port)

    def kill(self) -> None:
        """End the server so that it writes its metadata."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(30)
            self._process = None

    def url(self, place: str, port: int | None = None) -> str:
        endpoint = f"http://127.0.0.1:{port or self.port}/{ACCOUNT}"
        return f"{self.scheme}://{CONTAINER}/{place}?endpoint={endpoint}"
