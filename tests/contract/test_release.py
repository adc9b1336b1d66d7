"""`.ci/release` builds a tagged, clean and documented version, and refuses every other state of the work tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "forebay"
version = "1.2.3"
requires-python = ">=3.11"
"""
ENTRY: Final = "# Changes\n\n## 1.2.3 - 2026-11-22\n\n- A change.\n\n## 1.2.2\n\n- An older change.\n"


class Clone:
    """A repository with a small project and the release script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci" / "release", folder / ".ci" / "release")
        (folder / "forebay").mkdir()
        self.write("forebay/__init__.py", "")
        self.write(".gitignore", "/dist/\n")
        self.write("pyproject.toml", PROJECT)
        self.write("CHANGELOG.md", ENTRY)
        self.git("init", "--quiet")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True)

    def commit(self, *tags: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Change")
        for tag in tags:
            self.git("tag", tag)

    def release(self) -> subprocess.CompletedProcess[str]:
        command = [str(self.folder / ".ci" / "release"), sys.executable]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def built(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("dist/*"))


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "clone")


def assert_refused(clone: Clone, reason: str) -> None:
    ended = clone.release()

    assert ended.returncode == 1
    assert ended.stderr.startswith("forebay: no release: ")
    assert reason in ended.stderr
    assert clone.built() == []


def test_a_tagged_version_with_an_entry_is_built_as_wheel_and_sdist(clone: Clone) -> None:
    clone.commit("v1.2.3")

    ended = clone.release()

    assert ended.returncode == 0, ended.stderr
    assert clone.built() == ["forebay-1.2.3-py3-none-any.whl", "forebay-1.2.3.tar.gz"]


def test_a_heading_in_brackets_is_an_entry(clone: Clone) -> None:
    clone.write("CHANGELOG.md", ENTRY.replace("## 1.2.3", "## [1.2.3]"))
    clone.commit("v1.2.3")

    assert clone.release().returncode == 0


@pytest.mark.parametrize(
    "changes",
    [
        ENTRY.replace("1.2.3", "1.2.30"),
        ENTRY.replace("1.2.3", "1x2x3"),
        ENTRY.replace("## 1.2.3", "## Unreleased (1.2.3)"),
        ENTRY.replace("- A change.\n", ""),
        "",
    ],
    ids=["a longer version", "dots are no wildcards", "unreleased", "empty", "no file content"],
)
def test_a_version_without_an_entry_in_the_changelog_is_refused(clone: Clone, changes: str) -> None:
    clone.write("CHANGELOG.md", changes)
    clone.commit("v1.2.3")

    assert_refused(clone, "CHANGELOG.md has no entry for 1.2.3")


@pytest.mark.parametrize("name", ["CHANGELOG.md", "forebay/added.py"])
def test_a_work_tree_with_changes_is_refused(clone: Clone, name: str) -> None:
    clone.commit("v1.2.3")
    clone.write(name, f"{ENTRY}\n# later\n")

    assert_refused(clone, name)


def test_a_commit_without_a_version_tag_is_refused(clone: Clone) -> None:
    clone.commit("milestone")

    assert_refused(clone, "has no version tag")


def test_a_commit_with_two_version_tags_is_refused(clone: Clone) -> None:
    clone.commit("v1.2.3", "v1.2.4")

    assert_refused(clone, "v1.2.4")


def test_a_tag_of_another_version_than_the_project_is_refused(clone: Clone) -> None:
    clone.commit("v1.2.4")

    assert_refused(clone, "the tag is v1.2.4 and pyproject.toml has version 1.2.3")
