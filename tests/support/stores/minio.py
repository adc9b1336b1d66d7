"""MinIO on loopback: an S3 server that honours `If-Match` and `If-None-Match` under concurrent writers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.support.processes.server import TOOLS
from tests.support.stores.server import StoreServer, answers, required

BUCKET = "positions"


class MinioServer(StoreServer):
    """One folder, one bucket: a folder of the data directory."""

    good: Mapping[str, str] = {"AWS_ACCESS_KEY_ID": "billing-user-7", "AWS_SECRET_ACCESS_KEY": "s3-secret-1"}
    wrong: Mapping[str, str] = {"AWS_ACCESS_KEY_ID": "billing-user-7", "AWS_SECRET_ACCESS_KEY": "s3-wrong-2"}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = required("MinIO", shutil.which("minio", path=f"{TOOLS / 'bin'}:{os.environ['PATH']}"))
        (folder / "data" / BUCKET).mkdir(parents=True)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "MINIO_ROOT_USER": self.good["AWS_ACCESS_KEY_ID"],
            "MINIO_ROOT_PASSWORD": self.good["AWS_SECRET_ACCESS_KEY"],
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "MINIO_CALLHOME_ENABLE": "off",
        }

    def command(self) -> list[str]:
        return [self._program, "server", "--quiet", "--address", f"127.0.0.1:{self.port}", "data"]

    def is_ready(self) -> bool:
        import http.client

        if not answers(self.port):
            return False
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/minio/health/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def url(self, place: str, port: int | None = None) -> str:
        return f"s3://{BUCKET}/{place}?endpoint=http://127.0.0.1:{port or self.port}&region=us-east-1"
