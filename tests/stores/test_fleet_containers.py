"""Services of `compose/fleet/compose.yaml` as processes: their commands, environments and health checks, on loopback.

The images themselves are not built here.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, ReplayedRecord
from tests.support.calls.eventually import until
from tests.support.processes.server import ROOT, TOOLS
from tests.support.stores.server import free_port, required

FOLDER: Final = ROOT / "compose" / "fleet"
SERVICES: Final[dict[str, dict[str, Any]]] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))[
    "services"
]
BROKERS: Final = ("a1", "a2", "b1")
IMAGE: Final = (FOLDER.parent / "Dockerfile").read_text(encoding="utf-8")
WAIT_S: Final = 240.0
"""At a start a broker probes the bucket, with 2,000 creations: on a busy disk that takes minutes."""
SERVES: Final = "listening on"
FOLLOWS: Final = "following a journal"


class Services:
    """The services, each with a folder for its volume and with ports of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ports: Final = {(name, port): free_port() for name in BROKERS for port in (7461, 7462, 7463)}
        self._ports["bucket", 9000] = free_port()
        self._minio: Final = required("MinIO", shutil.which("minio", path=f"{TOOLS / 'bin'}:{os.environ['PATH']}"))

    def endpoint(self, name: str) -> str:
        """Address of a broker."""
        return f"127.0.0.1:{self._ports[name, 7461]}"

    @property
    def fleet(self) -> str:
        """Address of the fleet."""
        return self.environment("publisher")["FOREBAY_ENDPOINT"]

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of a container."""
        given = {key: self._here(name, str(value)) for key, value in SERVICES[name]["environment"].items()}
        folders = [str(Path(sys.executable).parent), str(Path(self._minio).parent), os.environ["PATH"]]
        own = {key: value for key, value in os.environ.items() if not key.startswith(("FOREBAY_", "AWS_", "MINIO_"))}
        return {**own, **given, "HOME": str(self._folder), "PATH": os.pathsep.join(folders)}

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Start a service in the background."""
        service = SERVICES[name]
        [from_image] = re.findall(r"^CMD (\[\"forebay\", \"serve\".*\])$", IMAGE, re.MULTILINE)
        words = service.get("entrypoint") or service.get("command") or yaml.safe_load(from_image)
        command = [self._here(name, word) for word in words]
        log = (self._folder / f"{name}.log").open("ab")
        with log:
            started = subprocess.Popen(command, env=self.environment(name), stdout=log, stderr=log, cwd=self._folder)
        self._running[name] = started
        return started

    def end(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """End a service; returns its exit code."""
        process = self._running.pop(name)
        process.send_signal(number)
        return process.wait(60)

    def health(self, name: str) -> tuple[int, str]:
        """Return the exit code and the output of the health check of a service."""
        [kind, *words] = SERVICES[name]["healthcheck"]["test"]
        assert kind == "CMD"
        command = [self._here(name, word) for word in words]
        done = subprocess.run(command, env=self.environment(name), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.strip()

    def log(self, name: str) -> str:
        """Return what a service has written."""
        return (self._folder / f"{name}.log").read_text(encoding="utf-8")

    def await_log(self, name: str, text: str, times: int = 1) -> None:
        """Wait until a service has written a text a given number of times."""
        until(lambda: self.log(name).count(text) >= times, timeout_s=WAIT_S)

    def lose_volume(self, name: str) -> None:
        """Delete the volume of a service."""
        shutil.rmtree(self._folder / name)

    def close(self) -> None:
        """End everything that still runs."""
        for name in list(self._running):
            self.end(name)

    def _here(self, service: str, text: str) -> str:
        """Translate a text of a container: defaults of variables, hosts, ports and paths."""
        text = re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", text)
        for (name, port), ours in self._ports.items():
            text = text.replace(f"{name}:{port}", f"127.0.0.1:{ours}")
            if name == service:
                text = re.sub(rf"(?:127\.0\.0\.1|0\.0\.0\.0|(?<= )):{port}\b", f"127.0.0.1:{ours}", text)
        text = text.replace("/opt/forebay/compose/publisher.py", str(FOLDER / "publisher.py"))
        text = text.replace("/opt/forebay/compose/", f"{FOLDER.parent}/")
        return re.sub(r"/data\b", str(self._folder / service), text)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    """The bucket server and the three brokers, healthy, with their sinks."""
    required("curl", shutil.which("curl"))
    found = Services(tmp_path)
    try:
        found.start("bucket")
        until(lambda: found.health("bucket")[0] == 0, timeout_s=WAIT_S)
        for broker in BROKERS:
            found.start(broker)
        for broker in BROKERS:
            found.await_log(broker, FOLLOWS)
        found.await_log("b1", SERVES)
        until(lambda: any(SERVES in found.log(broker) for broker in ("a1", "a2")), timeout_s=WAIT_S)
        until(lambda: found.start("sinks").wait(60) == 0, timeout_s=WAIT_S)
        yield found
    finally:
        found.close()


def confirmed(services: Services) -> dict[str, int]:
    """The receipts of the publisher by sink, as it has reported them last."""
    lines = services.log("publisher").splitlines()
    return {sink: int(count) for sink, count in re.findall(r"(\w+): (\d+) confirmed", lines[-1])} if lines else {}


def await_receipts(services: Services, *sinks: str) -> None:
    """Wait for further receipts of sinks."""
    before = confirmed(services)
    until(lambda: all(confirmed(services).get(sink, 0) > before.get(sink, 0) + 3 for sink in sinks), timeout_s=WAIT_S)


@pytest.mark.timeout(900)
def test_the_publisher_gets_a_receipt_for_each_record_through_an_outage_of_each_part(services: Services) -> None:
    services.start("publisher")
    await_receipts(services, "orders", "invoices")
    owner, follower = sorted(("a1", "a2"), key=lambda name: SERVES not in services.log(name))
    assert services.health(owner) == (0, "owner")
    code, role = services.health(follower)
    assert (code, role.partition(",")[0]) == (0, "follower")

    services.end(owner)
    services.await_log(follower, SERVES)
    await_receipts(services, "orders", "invoices")
    services.start(owner)
    services.await_log(owner, FOLLOWS, 2)

    services.end("b1")
    services.lose_volume("b1")
    await_receipts(services, "orders")
    services.start("b1")
    services.await_log("b1", SERVES, 2)
    await_receipts(services, "orders", "invoices")

    services.end("bucket")
    for broker in (follower, "b1"):
        services.await_log(broker, "journal is silent ready=False")
        assert services.health(broker) == (1, "owner, not ready: NOT_SERVING")
    services.start("bucket")
    await_receipts(services, "orders", "invoices")

    assert services.end("publisher", signal.SIGTERM) == 0
    with Client(services.fleet) as client:
        for sink, count in confirmed(services).items():
            values = [record.value for record in client.replay(sink) if isinstance(record, ReplayedRecord)]
            assert values == [b"%d" % number for number in range(count)]


@pytest.mark.timeout(900)
def test_a_shard_is_removed_from_a_fleet_in_a_bucket(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in services.environment("b1").items():
        monkeypatch.setenv(name, value)
    remove = ["shard", "remove", "b", "--takeover-after", "2s", "--yes"]
    assert run(remove) == ExitCode.REFUSED
    assert services.end("b1", signal.SIGTERM) == 0

    assert run([*remove, "--delete-journal"]) == ExitCode.OK

    owner = next(name for name in ("a1", "a2") if SERVES in services.log(name))
    with Client(services.endpoint(owner)) as client:
        until(lambda: [shard.name for shard in client.shards.list()] == ["a"], timeout_s=WAIT_S)
    assert services.start("b1").wait(WAIT_S) == 1
    assert "was removed from its fleet" in services.log("b1")
