"""Directories that no broker can begin with: one line says which and what to do, and the exit code is 1."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from forebay.broker.storage.formats import FORMAT
from forebay.cli.exits import ExitCode
from forebay.client import Client, Record
from tests.fault.test_damage import delivered, flip
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.broker import BrokerEnded, serve_command
from tests.support.processes.stopping import StoppingLauncher


def refusal(store: Path) -> tuple[int, list[str]]:
    """Exit code of a broker that does not come to serve on a directory, and the lines that it says."""
    log = store.with_name(f"{store.name}.log")
    log.unlink(missing_ok=True)
    broker = serve_command(store)
    with pytest.raises(BrokerEnded):
        broker.ready()
    return broker.wait(), log.read_text().splitlines()


@pytest.fixture
def store(launcher: StoppingLauncher, listen: str, tmp_path: Path) -> Path:
    """The directory of a broker that has ended."""
    directory = tmp_path / "store"
    with launcher.start(directory, listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            client.sinks.create("orders")
            client.publish("orders", [Record(b"value")])
        assert broker.terminate() == 0
    return directory


def the_only(store: Path, pattern: str) -> Path:
    """The one file of a database that a pattern names."""
    [path] = (store / "db").glob(pattern)
    return path


def empty_current(store: Path) -> None:
    (store / "db" / "CURRENT").write_bytes(b"")


def misleading_current(store: Path) -> None:
    (store / "db" / "CURRENT").write_bytes(b"MANIFEST-999999\n")


def no_current(store: Path) -> None:
    (store / "db" / "CURRENT").unlink()


def damaged_manifest(store: Path) -> None:
    flip(the_only(store, "MANIFEST-*"), 200)


def damaged_end_of_the_manifest(store: Path) -> None:
    flip(the_only(store, "MANIFEST-*"), -1)


def empty_manifest(store: Path) -> None:
    the_only(store, "MANIFEST-*").write_bytes(b"")


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        empty_current,
        misleading_current,
        no_current,
        damaged_manifest,
        damaged_end_of_the_manifest,
        empty_manifest,
    ],
    ids=lambda damage: damage.__name__.replace("_", " "),
)
def test_a_database_that_cannot_be_opened_is_named_with_what_to_do(damage: Callable[[Path], None], store: Path) -> None:
    damage(store)

    code, lines = refusal(store)
    again = refusal(store)

    assert code == ExitCode.FAILED
    [line] = lines
    assert line.startswith("forebay: ")
    assert str(store) in line
    assert "save what can be saved with `forebay repair --data-dir DIR --into NEW`" in line
    assert again == (code, lines)


@pytest.mark.slow
def test_state_that_cannot_be_read_is_repaired(store: Path, launcher: StoppingLauncher, listen: str) -> None:
    """The table of the newest flush is that of the broker's own state."""
    flip(max((store / "db").glob("*.sst")), 10)

    with launcher.start(store, listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            found = delivered(client)
            repairs = client.info().repairs
            identity_ok = client.sinks.stats("orders").identity_ok
        assert broker.terminate() == 0

    assert found == [b"value"]
    assert repairs
    assert identity_ok
    assert "damage was repaired" in broker.log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("content", "found"), [(f"{FORMAT + 1}\n", str(FORMAT + 1)), ("\xff\n", "unknown")])
def test_a_format_from_the_future_is_refused_with_both_numbers_and_changes_nothing(
    content: str, found: str, store: Path
) -> None:
    (store / "FORMAT").write_text(content)
    before = {path: path.stat().st_mtime_ns for path in (store / "db").iterdir()}

    code, lines = refusal(store)

    [line] = lines
    assert code == ExitCode.FAILED
    assert line == (
        f"forebay: store {store} has format {found}, this version reads format {FORMAT}; "
        f"use Forebay {version('forebay')}, which wrote it, or another directory"
    )
    assert {path: path.stat().st_mtime_ns for path in (store / "db").iterdir()} == before
