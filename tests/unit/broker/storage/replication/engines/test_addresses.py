"""Engines by their address."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.storage.replication.engine import EngineUnsuitable
from forebay.broker.storage.replication.engines.addresses import below, open_engine


def test_a_path_and_a_file_address_name_a_directory(tmp_path: Path) -> None:
    for text in (str(tmp_path / "a"), f"file://{tmp_path / 'a'}"):
        assert open_engine(text).address == f"file://{tmp_path / 'a'}"


def test_an_object_store_is_named_without_its_options() -> None:
    assert open_engine("s3://bucket/a/b?endpoint=http://localhost:9000&region=x").address == "s3://bucket/a/b"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ftp://host/x", "scheme is 'ftp'"),
        ("s3://", "must be s3://BUCKET/PREFIX"),
        ("s3://key:secret@bucket/x", "without credentials"),
        ("s3://bucket/x?color=red", "'color' is unknown"),
        ("kafka://host/topic", "with a port for each host"),
    ],
)
def test_an_address_that_names_no_engine_is_refused(text: str, problem: str) -> None:
    with pytest.raises(EngineUnsuitable, match=problem):
        open_engine(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/journal", "/journal/shards/a"),
        ("journal/", "journal/shards/a"),
        ("file:///journal", "file:///journal/shards/a"),
        ("s3://bucket", "s3://bucket/shards/a"),
        (
            "s3://bucket/x/?endpoint=http://minio:9000&region=y",
            "s3://bucket/x/shards/a?endpoint=http://minio:9000&region=y",
        ),
        ("kafka://a:1,b:2/journal?config=/c", "kafka://a:1,b:2/journal.shards.a?config=/c"),
    ],
)
def test_a_folder_below_an_address_keeps_the_options_of_the_address(text: str, found: str) -> None:
    assert below(text, "shards", "a") == found
