"""Google Cloud Storage on loopback: fake-gcs-server, behind a gateway that speaks the XML API and checks tokens."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.processes.server import ROOT, TOOLS
from tests.support.stores.server import StoreServer, answers, required

BUCKET: Final = "positions"


class GcsServer(StoreServer):
    """One bucket, and one service account that may use it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = required("fake-gcs-server", shutil.which("fake-gcs-server", path=str(TOOLS / "bin")))
        self.good = {"GOOGLE_SERVICE_ACCOUNT_KEY": account(private_key("good"))}
        self.wrong = {"GOOGLE_SERVICE_ACCOUNT_KEY": account(private_key("wrong"))}
        (folder / "data" / BUCKET).mkdir(parents=True)
        public = subprocess.run(
            ["openssl", "pkey", "-pubout"], input=private_key("good"), capture_output=True, check=True
        )
        (folder / "account.pub").write_bytes(public.stdout)

    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONPATH": str(ROOT)}

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "tests.support.stores.gcs_gateway", "--port", str(self.port)),
            *("--server", self._program, "--data", "data", "--key", "account.pub"),
        ]

    def is_ready(self) -> bool:
        return answers(self.port)

    def kill(self) -> None:
        """End the server after the requests in flight: it does not store an object in one step."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(30)
            self._process = None

    def url(self, place: str, port: int | None = None) -> str:
        return f"gs://{BUCKET}/{place}?endpoint=http://127.0.0.1:{port or self.port}"


@functools.cache
def private_key(name: str) -> bytes:
    """Return the key of an account, made on first use."""
    command = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def account(key: bytes) -> str:
    """Return the key file of a service account, as Google writes it, on one line."""
    return json.dumps(
        {
            "type": "service_account",
            "private_key_id": "1",
            "private_key": key.decode(),
            "client_email": "billing@example.iam.gserviceaccount.com",
        }
    )
