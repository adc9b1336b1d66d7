"""The broker, the proxy in front of it, and the two clients: started, stopped, and inspected."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from forebay.broker.core.access.credentials import token_credential
from forebay.client import Client
from tests.fault_client.control import Control
from tests.fault_client.ledger import Ledger
from tests.fault_client.worker import PARTITIONS, SINK, settings_of
from tests.support.certificates import Authority
from tests.support.processes.broker import ROOT, BrokerEnded, BrokerProcess, free_port, serve_command
from tests.support.proxies.tcp import TcpProxy

BADLY: Final = ("forebay: ", " ERROR ", " CRITICAL ")
"""Mark of the log lines in which a broker states why it ended."""
START_MAX_S: Final = 120.0
"""For a start on a busy machine; its duration is not under test here."""


CRASHES_SAID: Final = {"PYTHONFAULTHANDLER": "1"}
"""A process that crashes leaves the stacks of its threads in its log."""


class Worker:
    """A client in a process of its own."""

    def __init__(
        self, role: str, endpoint: str, keys: Keys | None, ledger: Ledger, log: Path, environment: dict[str, str]
    ) -> None:
        self.role: Final = role
        self.log: Final = log
        self._ledger = ledger
        files = ["", ""] if keys is None else [str(keys.ca_file), str(keys.token_file)]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fault_client.worker", role, endpoint, *files],
                cwd=ROOT,
                env={**os.environ, **CRASHES_SAID, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._asked = False
        self.done = False
        """True if it stopped gracefully."""
        self._reader = threading.Thread(target=self._read, name=f"reader-{role}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what = json.loads(line)
            if what[0] == "done":
                self.done = True
            else:
                self._ledger.take(what)

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; ``None`` while it runs."""
        return self._process.poll()

    def has_died(self) -> bool:
        """True if it ended unexpectedly."""
        return self.code is not None and not self._asked

    def stop(self, timeout_s: float) -> bool:
        """Ask it to stop; returns whether it did, in good order and time."""
        assert self._process.stdin is not None
        self._asked = True
        self._process.stdin.close()
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._reader.join(10)
        return code == 0 and self.done

    def kill(self) -> None:
        """End it at once, if it still runs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait(30)
        self._reader.join(10)
        self._process.stdin.close()
        self._process.stdout.close()


class Keys:
    """Certificates and tokens of one broker, which can be replaced while it runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._generation = 0
        self.ca_file: Final = folder / "ca.pem"
        self.token_file: Final = folder / "token"
        self.hashes: Final = folder / "hashes"
        self.cert: Final = folder / "broker.pem"
        self.key: Final = folder / "broker.key"
        self._authority = self._new_authority()
        self._replace(self.ca_file, self._authority.cert.read_bytes())
        self.new_certificate()
        self._tokens: list[str] = []
        self.new_token()
        self.hand_out_token()

    @property
    def environment(self) -> dict[str, str]:
        """Settings of the broker."""
        return {
            "FOREBAY_TLS_SERVER_CERT_FILE": str(self.cert),
            "FOREBAY_TLS_SERVER_KEY_FILE": str(self.key),
            "FOREBAY_TOKEN_HASHES_FILE": str(self.hashes),
        }

    def _new_authority(self) -> Authority:
        self._generation += 1
        return Authority(self._folder / f"made-{self._generation}", f"authority-{self._generation}")

    def _replace(self, path: Path, content: bytes) -> None:
        fresh = path.with_name(f"{path.name}.new")
        fresh.write_bytes(content)
        fresh.chmod(0o600)
        os.replace(fresh, path)

    def new_certificate(self) -> None:
        """Replace the broker's certificate and key by others of the authority."""
        pair = self._authority.signed("broker")
        self._replace(self.key, pair.key.read_bytes())
        self._replace(self.cert, pair.cert.read_bytes())

    def new_authority(self) -> None:
        """Replace the authority at clients and the broker; the former one stays trusted, as in a rotation."""
        former = self._authority.cert.read_bytes()
        self._authority = self._new_authority()
        self._replace(self.ca_file, self._authority.cert.read_bytes() + former)
        self.new_certificate()

    def new_token(self) -> None:
        """Let the broker know a new token beside the former one."""
        self._tokens = [*self._tokens[-1:], secrets.token_urlsafe(32)]
        self._write_hashes()

    def hand_out_token(self) -> None:
        """Give the clients the new token."""
        self._replace(self.token_file, self._tokens[-1].encode())

    def revoke_former(self) -> None:
        """Leave the broker the new token only."""
        self._tokens = self._tokens[-1:]
        self._write_hashes()

    def _write_hashes(self) -> None:
        lines = [token_credential("clients", one, ["admin=*"]).line for one in self._tokens]
        self._replace(self.hashes, "".join(f"{line}\n" for line in lines).encode())


class Stage:
    """One broker on one directory, with its clients."""

    def __init__(self, folder: Path, ledger: Ledger, library: Path | None, keys: Keys | None) -> None:
        control = None if library is None else Control(folder / "control", folder / "store", library)
        self.control: Final = control
        self.keys: Final = keys
        self.clients_control: Final = (
            None if library is None or keys is not None else Control(folder / "clients", folder / "no-store", library)
        )
        """Shifts the clients' clock; with TLS they would be right to find a fresh certificate not valid yet."""
        self.ledger: Final = ledger
        self._folder = folder
        self._listen = f"127.0.0.1:{free_port()}"
        self._environment = {
            **CRASHES_SAID,
            "FOREBAY_TAIL_BYTES": "0",  # deliveries are read from the disk
            **({} if control is None else control.environment),
            **({} if keys is None else keys.environment),
        }
        self.restarts = 0
        self.tracebacks = 0
        self._log_read = 0
        self.broker = self._started()
        self.wire: Final = TcpProxy(self._listen)
        files = ("", "") if keys is None else (str(keys.ca_file), str(keys.token_file))
        shifted = {} if self.clients_control is None else self.clients_control.environment
        with Client(self.wire.endpoint, settings=settings_of(*files)) as client:
            client.sinks.create(SINK, partitions=PARTITIONS)
        self.workers: Final = {
            role: Worker(role, self.wire.endpoint, keys, ledger, folder / f"{role}.log", shifted)
            for role in ("publish", "subscribe")
        }

    def _started(self) -> BrokerProcess:
        broker = serve_command(self._folder / "store", self._listen, environment=self._environment)
        broker.ready(START_MAX_S)
        return broker

    def start(self) -> None:
        """Start the broker again."""
        self.restarts += 1
        self.broker = self._started()

    def start_or_refused(self) -> bool:
        """Start the broker under a fault; a refused one says why and is made again without it."""
        self.restarts += 1
        self.broker = serve_command(self._folder / "store", self._listen, environment=self._environment)
        try:
            self.broker.ready(START_MAX_S)
        except BrokerEnded:
            self.look()
            return True
        return False

    def look(self) -> None:
        """Start a broker that has ended again, as a supervisor does, and note why it ended."""
        if self.broker.has_ended():
            code = self.broker.wait()
            if self.control is not None:
                self.control.lift()
            said = self.new_log()
            errors = [line for line in said.splitlines() if any(word in line for word in BADLY)]
            why = errors[-1][-300:] if errors else ""
            reason = f"exit code {code}" if code > 0 and errors else ""
            self.ledger.take(["ended", "broker", f"exit code {code}", reason, why if reason else said[-6_000:]])
            self.start()
        for role, worker in self.workers.items():
            if worker.has_died():
                raise BrokerEnded(f"the client {role} died with {worker.code}: {worker.log.read_text()[-2000:]}")

    def new_log(self) -> str:
        """Return what the broker has logged since the last call, and count tracebacks."""
        with self.broker.log.open(errors="replace") as log:
            log.seek(self._log_read)
            said = log.read()
            self._log_read = log.tell()
        self.tracebacks += said.count("Traceback")
        return said

    def held(self, who: str, seconds: float) -> None:
        """Stop a process for a while, as SIGSTOP does."""
        send = self.workers[who].signal if who in self.workers else self._signal_broker
        send(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            send(signal.SIGCONT)

    def _signal_broker(self, number: int) -> None:
        os.kill(self.broker.pid, number)

    def close(self) -> None:
        """End everything that still runs."""
        for worker in self.workers.values():
            worker.kill()
        self.wire.close()
        self.broker.kill()
