"""Outcomes of the target without a server; tests/stores has the tests on a real one."""

from __future__ import annotations

from pathlib import Path

from forebay.deliver import Batch, Retry, TargetContext
from forebay.deliver.targets.postgresql.target import postgresql_target
from tests.support.stores.server import free_port
from tests.support.targets.memory_source import records

BATCH = Batch("readings", "i", 0, tuple(records(3)))


def test_a_credentials_file_that_is_no_longer_readable_is_retried_and_named(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("PGPASSWORD=word-1\n")
    url = f"postgresql://127.0.0.1:{free_port()}/store"
    target = postgresql_target(url=url, table="readings", credentials_file=str(file))
    target.open(TargetContext("readings", "default", 1))

    file.write_text("word-1\n")
    wrong = target.send(BATCH)
    file.unlink()
    missing = target.send(BATCH)
    target.close()

    assert isinstance(wrong, Retry)
    assert f"line 1 of the credentials file {file} is no NAME=value" in wrong.reason
    assert "word-1" not in wrong.reason
    assert isinstance(missing, Retry)
    assert f"the credentials file {file} cannot be read: FileNotFoundError" in missing.reason


def test_a_server_that_is_not_there_is_no_refused_login() -> None:
    target = postgresql_target(url=f"postgresql://127.0.0.1:{free_port()}/store", table="readings")
    target.open(TargetContext("readings", "default", 1))

    outcome = target.send(BATCH)
    target.close()

    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith("OperationalError: ")
    assert "refused the login" not in outcome.reason
    assert "the login was refused" not in outcome.reason


def test_a_check_names_a_server_that_is_not_there_and_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("PGPASSWORD=word-1\n")
    port = free_port()
    url = f"postgresql://127.0.0.1:{port}/store"
    target = postgresql_target(url=url, table="readings", credentials_file=str(file))
    target.open(TargetContext("readings", "default", 1))

    absent = target.check()
    file.write_text("word-1\n")
    wrong = target.check()
    target.close()

    assert absent.startswith("OperationalError: ")
    assert str(port) in absent
    assert f"line 1 of the credentials file {file} is no NAME=value" in wrong
    assert "word-1" not in absent + wrong
