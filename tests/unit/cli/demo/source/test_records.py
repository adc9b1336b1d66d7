"""Records have ids of their own, and files appear in the folder whole."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from forebay.cli.demo.source.records import InputFolder, SourceRecord, number_rows, source_names

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def record(sequence: int) -> SourceRecord:
    return SourceRecord("live", sequence, "cpu/0", NOW, {"temperature": 1.5, "text": "ü"})


def test_a_record_is_one_line_of_json_whatever_its_text() -> None:
    line = SourceRecord("f.csv", 3, "f.csv/00000", NOW, {"text": "two\nlines"}).line()

    assert "\n" not in line
    assert json.loads(line)["id"] == "f.csv#3"


def test_a_staged_file_is_hidden_until_it_is_published(tmp_path: Path) -> None:
    folder = InputFolder(tmp_path)

    staged = folder.stage([record(0), record(1)], "first")

    assert [path.name for path in tmp_path.glob("[!.]*")] == []
    assert folder.publish(staged).name == "00000000.json"
    assert [path.name for path in tmp_path.iterdir()] == ["00000000.json"]


def test_the_folder_knows_the_ids_of_what_appeared_and_only_of_that(tmp_path: Path) -> None:
    folder = InputFolder(tmp_path)
    folder.publish(folder.stage([record(0), record(1)], "first"))
    folder.stage([record(2)], "second")

    assert list(InputFolder(tmp_path).produced_ids()) == ["live#0", "live#1"]


def test_rows_are_numbered_and_those_of_a_chunk_share_a_key() -> None:
    chunks = list(number_rows([{"n": n} for n in range(5)], source="f.csv", chunk_rows=2, now=NOW))

    assert [[item.sequence for item in chunk] for chunk in chunks] == [[0, 1], [2, 3], [4]]
    assert [item.entity for item in chunks[1]] == ["f.csv/00001", "f.csv/00001"]


def test_inputs_with_the_same_name_get_names_of_their_own() -> None:
    names = source_names([Path("a/x.csv"), Path("b/x.csv"), Path("y.csv")])

    assert names == ["x.csv", "x-2.csv", "y.csv"]
