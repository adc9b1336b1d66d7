"""`forebay verify`, `repair` and `quarantine` on directories whose contents are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.records.pages.page import SMALL_PAGE
from forebay.broker.storage.records.partitions.cursor import CURSOR
from forebay.broker.storage.repair.last_check import FILE
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.cli.exits import ExitCode
from forebay.cli.main import run
from tests.support.storage.disk_directory import NAMES, fill, judged


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A directory whose broker has stopped."""
    directory = tmp_path / "store"
    opened = RocksStore(directory)
    fill(opened)
    opened.close()
    return directory


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def spoil(directory: Path, family: Family, key: bytes) -> None:
    opened = RocksStore(directory)
    opened.write([Put(family, key, b"ten bytes!")])
    opened.sync()
    opened.close()


def asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    """Exit code and JSON of a command."""
    code = run([*map(str, arguments), "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_whole_directory_is_clean_and_is_not_changed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(store)

    code, report = asked(capsys, "verify", "--data-dir", store)

    assert (code, report["clean"]) == (ExitCode.OK, True)
    assert [(one["sink"], one["records"], one["problems"]) for one in report["partitions"]] == [
        (name, 240, []) for name in NAMES
    ]
    assert {path: content for path, content in files(store).items() if path != str(store / FILE)} == before
    assert json.loads((store / FILE).read_bytes())["damage"] == 0
    assert [path.name for path in store.parent.iterdir()] == ["store"]


def test_verify_names_a_damaged_cursor_index_entry_and_page(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(store, Family.META, CURSOR.key(1, 0, "default"))
    spoil(store, Family.INDEX, ENTRY.key(2, 0, 200))
    spoil(store, Family.SMALL, SMALL_PAGE.key(3, 0, (1 << 40) + 203))

    code, report = asked(capsys, "verify", "--data-dir", store)

    assert code == ExitCode.FAILED
    assert any("cursor of first/0" in line for line in report["damage"])
    first, second, third = report["partitions"]
    assert first["problems"] == []
    assert second["problems"] == ["offset 200: its page is not in the index"]
    assert (third["damaged_pages"], third["lost_records"]) == (1, 10)


def test_verify_exits_with_2_for_a_database_that_cannot_be_opened_and_repair_saves_all_its_records(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (store / "db" / "CURRENT").write_bytes(b"MANIFEST-999999\n")
    for path in (store / "db").glob("MANIFEST-*"):
        path.unlink()
    before = files(store)

    assert run(["verify", "--data-dir", str(store)]) == 2
    assert "forebay repair" in capsys.readouterr().err
    code, report = asked(capsys, "repair", "--data-dir", store, "--into", tmp_path / "saved")

    assert code == ExitCode.OK
    assert [one["records"] for one in report["partitions"]] == [240, 240, 240]
    assert files(store) == before
    verdict = judged(tmp_path / "saved")
    assert (verdict.wrong, sum(verdict.lost.values())) == ([], 0)


def test_a_repair_leaves_a_directory_that_is_clean(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(store, Family.SMALL, SMALL_PAGE.key(3, 0, (1 << 40) + 203))
    spoil(store, Family.INDEX, ENTRY.key(2, 0, 200))

    run(["repair", "--data-dir", str(store), "--into", str(tmp_path / "saved")])
    capsys.readouterr()

    code, report = asked(capsys, "verify", "--data-dir", tmp_path / "saved")
    assert (code, report["damage"]) == (ExitCode.OK, [])
    assert [one["records"] for one in report["partitions"]] == [240, 240, 230]
    code, pages = asked(capsys, "quarantine", "list", "--data-dir", tmp_path / "saved")
    of_before = [(name, 0, 0) for name in NAMES]  # every sink has a page that was put aside before
    found = [(one["sink"], one["first_offset"], one["size"]) for one in pages]
    assert sorted(found) == sorted([*of_before, ("third", 200, 10)])
    code, written = asked(
        capsys, "quarantine", "export", "--data-dir", tmp_path / "saved", "--into", tmp_path / "pages"
    )
    contents = [Path(one).read_bytes() for one in written]
    assert [content for content in contents if content] == [b"ten bytes!"]


def test_a_directory_in_use_is_refused(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened = RocksStore(store)
    try:
        assert run(["verify", "--data-dir", str(store)]) == ExitCode.REFUSED
        assert run(["repair", "--data-dir", str(store), "--into", str(tmp_path / "saved")]) == ExitCode.REFUSED
    finally:
        opened.close()
    assert "in use" in capsys.readouterr().err


def test_a_repair_never_writes_into_an_existing_directory(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["repair", "--data-dir", str(store), "--into", str(store)]) == ExitCode.USAGE
    assert "exists" in capsys.readouterr().err
