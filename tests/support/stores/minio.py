"""MinIO on loopback: an S3 server that honours `If-Match` and `If-None-Match` under concurrent writers."""

from __future__ import annotations

import os
import shutil
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

from tests.support.certificates import Authority
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
        if not answers(self.port):
            return False
        connection = self._connection()
        try:
            connection.request("GET", "/minio/health/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=2)

    def url(self, place: str, port: int | None = None) -> str:
        return f"s3://{BUCKET}/{place}?endpoint=http://127.0.0.1:{port or self.port}&region=us-east-1"


class TlsMinioServer(MinioServer):
    """One that takes no connection without TLS."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        authority = Authority(folder / "authority")
        self._authority = authority.cert
        pair = authority.signed("minio")
        certificates = folder / "certificates"
        certificates.mkdir()
        pair.cert.rename(certificates / "public.crt")
        pair.key.rename(certificates / "private.key")
        trusted = {"SSL_CERT_FILE": str(authority.cert)}
        self.good, self.wrong = {**self.good, **trusted}, {**self.wrong, **trusted}

    def command(self) -> list[str]:
        program, *rest = super().command()
        return [program, *rest[:-1], "--certs-dir", str(self.folder / "certificates"), rest[-1]]

    def _connection(self) -> HTTPConnection:
        context = ssl.create_default_context(cafile=self._authority)
        return HTTPSConnection("127.0.0.1", self.port, timeout=2, context=context)

    def url(self, place: str, port: int | None = None) -> str:
        return super().url(place, port).replace("endpoint=http://", "endpoint=https://")
