"""Certificates for one test, made by the command `openssl`: nothing secret is kept in the repository."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM files."""

    cert: Path
    key: Path


class Authority:
    """One that signs certificates."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.cert: Final = folder / f"{name}.pem"
        """Certificate for clients that trust it."""
        self._key = folder / f"{name}.key"
        _openssl(
            *("req", "-x509", *_KEY, "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", "basicConstraints=critical,CA:TRUE", "-keyout", self._key, "-out", self.cert),
        )

    def signed(self, name: str, *, alternatives: str = "DNS:localhost,IP:127.0.0.1") -> Pair:
        """Return a certificate that names ``alternatives``."""
        return self._signed(name, alternatives, days=2)

    def expiring(self, name: str, *, alternatives: str = "DNS:localhost,IP:127.0.0.1") -> Pair:
        """Return a certificate that has expired a second later."""
        return self._signed(name, alternatives, days=0)

    def _signed(self, name: str, alternatives: str, *, days: int) -> Pair:
        made = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        request = self._folder / f"{name}.csr"
        names = f"subjectAltName={alternatives}"
        _openssl("req", *_KEY, "-subj", f"/CN={name}", "-addext", names, "-keyout", made.key, "-out", request)
        _openssl(
            *("x509", "-req", "-in", request, "-days", str(days), "-copy_extensions", "copy", "-out", made.cert),
            *("-CA", self.cert, "-CAkey", self._key),
        )
        made.key.chmod(0o600)
        return made


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
