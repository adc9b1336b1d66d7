"""Migrations of a data directory: in order, reported, and continued after a kill at any point."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from forebay.broker.storage.errors import StoreFormatUnsupported
from forebay.broker.storage.formats import FORMAT, FORMATS, Formats, Step, format_in
from forebay.broker.storage.repair.inspection import snapshot
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.migrating import NEW, VALUES, contents, fill, later_formats

pytestmark = pytest.mark.slow  # most open a RocksDB
MIGRATED = {NEW + b"%d" % number: b"value %d!" % number for number in range(VALUES)}


def number_in(directory: Path) -> str:
    return (directory / "FORMAT").read_text().strip()


def report_of(directory: Path) -> list[tuple[int, int]]:
    """Return format and changed values of each reported step."""
    return [(step["to"], step["values"]) for step in json.loads((directory / "migrations.json").read_text())]


def killed_while_migrating(directory: Path, values: int) -> None:
    """Migrate in a process, and kill it when it has changed so many values."""
    command = [sys.executable, "-m", "tests.support.storage.migrating", str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(values):
            assert process.stdout.readline() == "changed\n"
            if number < values - 1:
                process.stdin.write("\n")
                process.stdin.flush()
        process.kill()


def test_an_older_format_is_migrated_step_by_step_with_a_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path)

    with caplog.at_level("INFO"):
        store = RocksStore(tmp_path, formats=later_formats())
    found = contents(store)
    store.close()

    assert found == MIGRATED
    assert number_in(tmp_path) == f"{FORMAT + 2}"
    assert report_of(tmp_path) == [(FORMAT + 1, VALUES), (FORMAT + 2, VALUES)]
    assert "data directory was migrated, earlier versions do not open it any more" in caplog.text
    assert f"format_before={FORMAT} format={FORMAT + 2} values={2 * VALUES}" in caplog.text
    assert "change='keys begin with new'" in caplog.text


def test_a_migrated_directory_is_not_migrated_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path)
    RocksStore(tmp_path, formats=later_formats()).close()
    caplog.clear()

    store = RocksStore(tmp_path, formats=later_formats())
    found = contents(store)
    store.close()

    assert found == MIGRATED
    assert "data directory was migrated" not in caplog.text


@pytest.mark.parametrize("values", [1, VALUES, VALUES + 2, 2 * VALUES])
def test_a_migration_that_was_killed_is_continued_by_the_next_start(tmp_path: Path, values: int) -> None:
    fill(tmp_path)
    killed_while_migrating(tmp_path, values)
    step = FORMAT + (1 if values <= VALUES else 2)
    assert number_in(tmp_path) == f"{step - 1} to {step}"
    with pytest.raises(StoreFormatUnsupported):
        RocksStore(tmp_path, formats=Formats(FORMAT - 1))

    store = RocksStore(tmp_path, formats=later_formats())
    found = contents(store)
    store.close()

    assert found == MIGRATED
    assert number_in(tmp_path) == f"{FORMAT + 2}"
    assert [to for to, _ in report_of(tmp_path)] == [FORMAT + 1, FORMAT + 2]


def test_an_interrupted_migration_is_refused_by_the_version_before_it(tmp_path: Path) -> None:
    fill(tmp_path)
    killed_while_migrating(tmp_path, VALUES + 1)

    with pytest.raises(StoreFormatUnsupported, match=f"has format {FORMAT + 1}, this version reads format {FORMAT};"):
        RocksStore(tmp_path)


def test_a_step_that_fails_leaves_the_directory_closed_and_between_the_formats(tmp_path: Path) -> None:
    fill(tmp_path)

    def fail() -> None:
        raise OSError("the disk failed")

    with pytest.raises(OSError, match="the disk failed"):
        RocksStore(tmp_path, formats=later_formats(fail))
    assert number_in(tmp_path) == f"{FORMAT} to {FORMAT + 1}"

    store = RocksStore(tmp_path, formats=later_formats())
    found = contents(store)
    store.close()

    assert found == MIGRATED


def test_a_format_that_no_step_leads_from_is_refused_with_the_formats_that_are_migrated(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "FORMAT").write_text(f"{FORMAT - 1}\n")

    with pytest.raises(
        StoreFormatUnsupported, match=f"reads format {FORMAT + 2} and migrates formats from {FORMAT} on; use Forebay"
    ):
        RocksStore(tmp_path, formats=later_formats())


def test_an_inspection_keeps_the_number_of_a_directory_that_can_be_opened_and_gives_others_the_current_one(
    tmp_path: Path,
) -> None:
    fill(tmp_path / "data")
    for number, text in enumerate([f"{FORMAT}\n", "\xff", ""]):
        (tmp_path / "data" / "FORMAT").write_text(text)
        snapshot(tmp_path / "data", tmp_path / f"{number}")
        assert number_in(tmp_path / f"{number}") == f"{FORMAT}"


@pytest.mark.parametrize(
    ("text", "found"),
    [("3\n", 3), ("3 to 4\n", 3), ("3 to 5\n", None), ("3 to", None), ("", None), ("-3", None), ("1" * 40, None)],
)
def test_the_number_of_an_interrupted_migration_is_the_older_one(text: str, found: int | None) -> None:
    assert format_in(text) == found


def test_steps_with_a_gap_are_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"lead to \[5\], they must lead to \[6\]"):
        Formats(6, (Step(5, "", lambda store: 0),))


def test_the_steps_of_this_version_lead_to_its_format() -> None:
    assert (FORMATS.current, FORMATS.oldest) == (FORMAT, FORMAT - len(FORMATS.steps))
