"""`forebay run`: many deliveries in one process, over a real broker, with targets that fail and a file that changes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, Record
from tests.support.calls.eventually import stats_when, until

WAIT_S = 60.0


class Deliveries:
    """A file of deliveries into files, and the process that runs it."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.file = folder / "deliveries.toml"
        self._folder, self._endpoint = folder, endpoint
        self._tables: dict[str, str] = {}

    def into_file(self, sink: str, path: str | None = None) -> None:
        """Deliver a sink into a file of the folder."""
        out = self._folder / (path or f"{sink}.jsonl")
        self.table(sink, f"[targets.{sink}]\nto = 'file'\noptions = {{ path = '{out}' }}\n")

    def table(self, sink: str, target: str) -> None:
        """Deliver a sink to the target of this text."""
        self._tables[sink] = f"{target}[deliveries.{sink}]\ntarget = '{sink}'\nconcurrency = 2\n"
        self.write()

    def remove(self, sink: str) -> None:
        """Deliver a sink no longer."""
        del self._tables[sink]
        self.write()

    def write(self) -> None:
        """Write the file."""
        self.file.write_text("\n".join(self._tables.values()))

    def lines(self, sink: str, path: str | None = None) -> list[str]:
        """Values that were delivered into the file of a sink."""
        written = self._folder / (path or f"{sink}-0.jsonl")
        if not written.exists():
            return []
        return [str(json.loads(line)["value"]) for line in written.read_text().splitlines() if line.endswith("}")]

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Run the file; at the end of the block the process is stopped, and has to end with 0."""
        command = [sys.executable, "-m", "forebay.cli", "run", str(self.file), "-e", self._endpoint, "-o", "json"]
        with (self._folder / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["deliveries"] == list(self._tables)
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_S) == ExitCode.OK
        except AssertionError as error:
            error.add_note((self._folder / "log").read_text())
            raise
        finally:
            process.kill()
            process.communicate(timeout=WAIT_S)

    def logged(self, text: str) -> bool:
        """Return whether the process has logged a text."""
        return text in (self._folder / "log").read_text()


@pytest.fixture
def deliveries(tmp_path: Path, broker: BrokerServer) -> Deliveries:
    return Deliveries(tmp_path, broker.endpoint)


def publish(client: Client, sink: str, *values: str) -> None:
    client.sinks.create(sink)
    client.publish(sink, [Record(value.encode()) for value in values])


def streams(client: Client) -> dict[str, tuple[str, datetime]]:
    """Consumer and beginning of the delivery of each sink."""
    return {
        stream.sink: (stream.client_id, stream.opened_at)
        for connection in client.connections()
        for stream in connection.streams
        if stream.method == "Deliver"
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_targets_that_fail_hold_back_no_other_delivery(deliveries: Deliveries, client: Client, tmp_path: Path) -> None:
    for sink in ("good", "refused", "closed", "fine"):
        publish(client, sink, f"{sink} 1", f"{sink} 2")
    deliveries.into_file("good")
    deliveries.into_file("refused", "later/refused.jsonl")  # the folder does not exist: it cannot be opened
    deliveries.table("closed", f"[targets.closed]\nto = 'http://127.0.0.1:{free_port()}/'\n")
    deliveries.into_file("fine")

    with deliveries.running():
        until(lambda: len(deliveries.lines("good")) == len(deliveries.lines("fine")) == 2, timeout_s=WAIT_S)
        until(lambda: deliveries.logged("delivery restart was scheduled name=refused"), timeout_s=WAIT_S)
        before = streams(client)
        (tmp_path / "later").mkdir()
        until(lambda: len(deliveries.lines("refused", "later/refused-0.jsonl")) == 2, timeout_s=WAIT_S)
        stats_when(client, "closed", lambda stats: stats.subscriptions[0].partitions[0].redelivered >= 1)

        assert {sink: streams(client)[sink] for sink in ("good", "fine")} == {
            sink: before[sink] for sink in ("good", "fine")
        }

    assert deliveries.lines("good") == ["good 1", "good 2"]
    assert client.sinks.stats("closed").subscriptions[0].partitions[0].pending == 2


def test_a_reload_adds_removes_and_changes_deliveries_and_leaves_the_others_undisturbed(
    deliveries: Deliveries, client: Client
) -> None:
    for sink in ("same", "removed", "changed", "added"):
        publish(client, sink, "first")
    for sink in ("same", "removed", "changed"):
        deliveries.into_file(sink)

    with deliveries.running() as process:
        until(lambda: all(deliveries.lines(sink) for sink in ("same", "removed", "changed")), timeout_s=WAIT_S)
        before = streams(client)
        deliveries.remove("removed")
        deliveries.into_file("changed", "elsewhere.jsonl")
        deliveries.into_file("added")
        process.send_signal(signal.SIGHUP)
        until(lambda: deliveries.lines("added") == ["first"], timeout_s=WAIT_S)
        until(lambda: streams(client).keys() == {"same", "changed", "added"}, timeout_s=WAIT_S)
        for sink in ("same", "removed", "changed"):
            client.publish(sink, [Record(b"second")])
        until(lambda: deliveries.lines("changed", "elsewhere-0.jsonl") == ["second"], timeout_s=WAIT_S)
        until(lambda: deliveries.lines("same") == ["first", "second"], timeout_s=WAIT_S)

        after = streams(client)
        assert after["same"] == before["same"]
        assert after["changed"] != before["changed"]
        assert deliveries.lines("removed") == ["first"]
        assert deliveries.logged("deliveries were reloaded added=1 removed=1 changed=1 unchanged=1")


def test_a_reload_of_a_wrong_file_is_refused_as_a_whole(deliveries: Deliveries, client: Client) -> None:
    publish(client, "orders", "first")
    publish(client, "events", "first")
    deliveries.into_file("orders")

    with deliveries.running() as process:
        until(lambda: deliveries.lines("orders") == ["first"], timeout_s=WAIT_S)
        deliveries.into_file("events")
        good = deliveries.file.read_text()
        deliveries.file.write_text(good.replace("path", "paht"))
        process.send_signal(signal.SIGHUP)
        until(lambda: deliveries.logged("and continue unchanged"), timeout_s=WAIT_S)
        client.publish("orders", [Record(b"second")])
        until(lambda: deliveries.lines("orders") == ["first", "second"], timeout_s=WAIT_S)
        deliveries.file.write_text(good)
        process.send_signal(signal.SIGHUP)
        until(lambda: deliveries.lines("events") == ["first"], timeout_s=WAIT_S)


def test_it_starts_without_a_broker_and_without_a_sink(tmp_path: Path) -> None:
    port = free_port()
    deliveries = Deliveries(tmp_path, f"127.0.0.1:{port}")
    deliveries.into_file("orders")

    with (
        deliveries.running(),
        BrokerServer.in_memory(listen=f"127.0.0.1:{port}") as broker,
        Client(broker.endpoint) as client,
    ):
        until(lambda: deliveries.logged("delivery failed name=orders"), timeout_s=WAIT_S)
        publish(client, "orders", "first")
        until(lambda: deliveries.lines("orders") == ["first"], timeout_s=WAIT_S)


def test_a_check_connects_to_nothing_and_with_open_opens_the_targets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deliveries = Deliveries(tmp_path, "127.0.0.1:1")
    deliveries.into_file("orders")
    deliveries.into_file("events", "absent/events.jsonl")

    assert run(["run", str(deliveries.file), "--check"]) == ExitCode.OK
    assert "is valid" in capsys.readouterr().out
    assert run(["run", str(deliveries.file), "--check", "--open", "-o", "json"]) == ExitCode.USAGE
    found = json.loads(capsys.readouterr().out)
    assert (found["valid"], [bool(one["problem"]) for one in found["deliveries"]]) == (False, [False, True])


def test_a_check_with_open_finds_a_database_that_cannot_be_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "deliveries.toml"
    file.write_text(
        f"[targets.plant]\nto = 'postgresql://127.0.0.1:{free_port()}/plant'\noptions = {{ table = 'readings' }}\n"
        "[deliveries.readings]\ntarget = 'plant'\n"
    )
    monkeypatch.setenv("PGPASSWORD", "hunter2")

    assert run(["run", str(file), "--check"]) == ExitCode.OK
    capsys.readouterr()
    assert run(["run", str(file), "--check", "--open", "-o", "json"]) == ExitCode.USAGE
    said = capsys.readouterr().out
    assert "Connection refused" in json.loads(said)["deliveries"][0]["problem"]
    assert "hunter2" not in said


def test_a_wrong_file_is_wrong_usage_with_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "deliveries.toml"
    file.write_text("[targets.t]\nto = 'x:y'\noptions = { password = 'hunter2' }\n[deliveries.a]\ntarget = 'b'\n")

    for words in ([], ["--check"]):
        assert run(["run", str(file), "-e", "127.0.0.1:1", *words]) == ExitCode.USAGE
        said = capsys.readouterr().err
        assert "targets.t.options.password: a secret must come from" in said
        assert "deliveries.a.target = 'b'" in said
        assert "hunter2" not in said
    assert run(["run", str(tmp_path / "absent.toml")]) == ExitCode.USAGE
    assert run(["run", str(file), "--open"]) == ExitCode.USAGE


def test_secrets_come_from_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "deliveries.toml"
    file.write_text("[targets.t]\nto = { env = 'TARGET_URL' }\n[deliveries.a]\ntarget = 't'\n")
    monkeypatch.setenv("TARGET_URL", "https://example.org/hooks/hunter2")

    code = run(["run", str(file), "--check"])

    out, err = capsys.readouterr()
    assert code == ExitCode.OK, err
    assert "hunter2" not in out + err
