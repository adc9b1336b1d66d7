"""PostgreSQL on loopback, with a password."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.stores.server import StoreServer, answers, required

PASSWORD: Final = "pg-secret-1"
DATABASE: Final = "positions"


def program(name: str) -> str:
    """Return the path of a program of PostgreSQL; Debian keeps them beside the PATH."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return required("PostgreSQL", shutil.which(name) or (str(debian[-1]) if debian else None))


class PostgresqlServer(StoreServer):
    """One database cluster. It refuses to run as root, so the superuser hands it to another user."""

    good: Mapping[str, str] = {"PGUSER": "billing", "PGPASSWORD": PASSWORD}
    wrong: Mapping[str, str] = {"PGUSER": "billing", "PGPASSWORD": "pg-wrong-2"}
    sockets: Path
    """Folder of its Unix-domain socket."""

    def __init__(self, folder: Path, settings: Sequence[str] = ("shared_buffers=16MB",)) -> None:
        """``settings`` are those that differ from the defaults of PostgreSQL."""
        super().__init__(folder)
        self._settings = settings
        secret = folder / "password"
        secret.write_text(PASSWORD)
        self.sockets = folder / "Sockets"
        self.sockets.mkdir()
        if (user := self.user()) is not None:
            for path in (folder, secret, self.sockets):
                shutil.chown(path, user)
        subprocess.run(
            [program("initdb"), "-D", "data", "-U", "billing", "-A", "scram-sha-256", "--pwfile", "password", "-N"],
            cwd=folder,
            env=self.environment(),
            user=user,
            check=True,
            capture_output=True,
        )

    def user(self) -> str | None:
        if os.geteuid() != 0:
            return None
        names = {one.pw_name for one in pwd.getpwall()}
        return "postgres" if "postgres" in names else "nobody"

    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LC_ALL": "C"}

    def command(self) -> list[str]:
        return [
            *(program("postgres"), "-D", "data", "-p", str(self.port), "-h", "127.0.0.1"),
            *("-c", f"unix_socket_directories={self.sockets}", "-c", "max_connections=60"),
            *(word for setting in self._settings for word in ("-c", setting)),
        ]

    def is_ready(self) -> bool:
        import psycopg

        if not answers(self.port):
            return False
        try:
            with psycopg.connect(
                host="127.0.0.1", port=self.port, user="billing", password=PASSWORD, dbname="postgres", autocommit=True
            ) as connection:
                if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchall():
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.OperationalError:
            return False
        return True

    def close(self) -> None:
        """End the server so that it releases its shared memory, which outlives a kill."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None
        super().close()

    def url(self, place: str, port: int | None = None) -> str:
        return f"postgresql://127.0.0.1:{port or self.port}/{DATABASE}?table={place}"
