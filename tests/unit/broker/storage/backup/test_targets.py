from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.storage.backup.directory_target import DirectoryTarget
from forebay.broker.storage.backup.errors import BackupError, TargetMissing
from forebay.broker.storage.backup.object_target import ObjectTarget
from forebay.broker.storage.backup.targets import open_target


@pytest.mark.parametrize("text", ["/tmp/x", "file:///tmp/x"])
def test_a_path_and_its_address_are_the_same_target(text: str) -> None:
    target = open_target(text)

    assert isinstance(target, DirectoryTarget)
    assert target.directory == Path("/tmp/x")


def test_a_directory_is_created_by_what_is_put_unless_it_must_exist(tmp_path: Path) -> None:
    place = str(tmp_path / "target")

    with pytest.raises(TargetMissing, match="the directory does not exist"):
        open_target(place, creates=False)
    open_target(place).put("a", [b"1"])

    assert list(open_target(place, creates=False).names()) == ["a"]


def test_an_unknown_scheme_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(BackupError, match=r"'ftp://x/y': the scheme is 'ftp'; file"):
        open_target("ftp://x/y")


@pytest.mark.parametrize("text", ["s3://bucket/a", "gs://bucket/a", "az://bucket/a", "s3://b?endpoint=http://h:1"])
def test_object_stores_are_targets(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "name")

    assert isinstance(open_target(text), ObjectTarget)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("s3://user:word@bucket/a", "without credentials"), ("s3:///a", "BUCKET"), ("s3://b?part=1", "'part' is unknown")],
)
def test_a_wrong_address_of_an_object_store_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BackupError, match=problem):
        open_target(text)


def test_no_target_is_refused() -> None:
    with pytest.raises(BackupError, match="no target is named"):
        open_target("")
