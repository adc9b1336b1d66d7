"""A warning is logged when it is new and once a day, and costs nothing in between."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forebay.credentials import CredentialFile, CredentialReport, Kind
from forebay.credentials.report import CHECK_INTERVAL_S, REPEAT_S

LOG = logging.getLogger("forebay.test")


class World:
    def __init__(self, path: Path) -> None:
        self.time = 0.0
        self.file = path / "key"
        self.file.touch()
        self.file.chmod(0o644)
        self.report = CredentialReport(
            [CredentialFile("tls_key_file", str(self.file), Kind.SECRET)],
            log=LOG,
            clock=lambda: self.time,
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        )


def test_a_warning_is_logged_at_once_and_then_once_a_day(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path)
    lines = []
    while world.time <= 2 * REPEAT_S:
        world.report.check()
        lines.append(len(caplog.records))
        world.time += CHECK_INTERVAL_S

    assert lines[0] == 1
    assert lines[-1] == 3
    assert "tls_key_file" in caplog.text
    assert len(world.report.warnings) == 1


def test_a_corrected_file_is_no_warning_after_a_forced_check(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.report.check()
    world.file.chmod(0o600)
    world.report.check()
    assert len(world.report.warnings) == 1  # it is not yet time

    world.report.check(force=True)

    assert not world.report.warnings
