"""The answer of `java -version` is understood in its old and new forms, and a missing Java is one
sentence.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.cli.demo.processes.java import JavaMissing, major_version, require_java


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("no such thing", None),
    ],
)
def test_the_major_version_is_found(text: str, version: int | None) -> None:
    assert major_version(text) == version


def test_a_java_that_is_not_there_is_named_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaMissing, match="Java 17 or newer") as lacking:
        require_java()

    assert "\n" not in str(lacking.value)


def test_a_java_that_is_too_old_is_named_with_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaMissing, match="is version 11"):
        require_java()
    assert require_java(8) == 11
