"""Errors of engines."""

from __future__ import annotations

from forebay.broker.storage.backup.errors import BackupStopped, TargetFailed
from forebay.broker.storage.replication.engine import EngineAway, EngineRefused, away_of


def test_an_error_has_the_address_once_and_the_cause_without_it() -> None:
    away = EngineAway("no answer", "kafka://a:1/b")

    assert (str(away), away.cause, away.address) == ("kafka://a:1/b: no answer", "no answer", "kafka://a:1/b")
    assert str(EngineAway("no answer")) == "no answer"


def test_the_error_of_an_engine_is_found_below_the_failures_that_were_raised_from_it() -> None:
    failure = BackupStopped("the checkpoint was not completed")
    failure.__cause__ = TargetFailed("the file could not be read")
    failure.__cause__.__cause__ = EngineRefused("no right", "kafka://a:1/b")

    found = away_of(failure)

    assert (type(found), found.cause, found.address) == (EngineRefused, "no right", "kafka://a:1/b")


def test_another_failure_is_an_error_with_its_text() -> None:
    found = away_of(TargetFailed("the disk does not answer"))

    assert (type(found), found.cause, found.address) == (EngineAway, "the disk does not answer", "")
