"""Every known error has one sentence and the exit code that the table promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.storage.backup.errors import BackupDamaged, TargetFailed, TargetMissing
from forebay.broker.storage.errors import StoreCorrupt, StoreFailed, StoreLocked, StoreNoSpace
from forebay.broker.storage.store.contract import Family
from forebay.cli.exits import ExitCode
from forebay.cli.extras import MissingExtra
from forebay.cli.report import CommandFailed, exit_code, further_lines, known_errors, problem, sentence
from forebay.client import errors
from forebay.deliver.errors import InvalidOption, TargetClosed, UnknownTarget
from forebay.errors.reasons import Reason

CODES = [
    (errors.InvalidArgument("x", reason=Reason.INVALID_SINK_NAME), ExitCode.USAGE),
    (errors.RecordTooLarge("x"), ExitCode.USAGE),
    (errors.SinkNotFound("x"), ExitCode.NOT_FOUND),
    (errors.BrokerUnavailable("x"), ExitCode.UNAVAILABLE),
    (errors.BrokerDraining("x"), ExitCode.UNAVAILABLE),
    (errors.DeliveryTimeout("x"), ExitCode.UNAVAILABLE),
    (errors.AlreadyExists("x", reason=Reason.SINK_EXISTS), ExitCode.REFUSED),
    (errors.SinkFull("x"), ExitCode.REFUSED),
    (errors.FailedPrecondition("x", reason=Reason.SINK_NOT_EMPTY), ExitCode.REFUSED),
    (errors.OffsetTrimmed("x"), ExitCode.REFUSED),
    (errors.WriterFenced("x"), ExitCode.REFUSED),
    (errors.ArrowNotInstalled("x"), ExitCode.MISSING),
    (errors.SchemaNotFound("x"), ExitCode.NOT_FOUND),
    (errors.GapError("x"), ExitCode.FAILED),
    (errors.BrokerFault("x"), ExitCode.FAILED),
    (UnknownTarget("x", ["http"]), ExitCode.USAGE),
    (InvalidOption("http", "url", "it is needed"), ExitCode.USAGE),
    (TargetClosed("x"), ExitCode.FAILED),
    (StoreLocked(Path("d"), 7), ExitCode.REFUSED),
    (StoreFailed("write", "broken"), ExitCode.FAILED),
    (MissingExtra("a broker", "broker"), ExitCode.MISSING),
    (CommandFailed("x", ExitCode.NOT_FOUND), ExitCode.NOT_FOUND),
]


@pytest.mark.parametrize(("error", "code"), CODES, ids=lambda value: type(value).__name__)
def test_an_error_leads_to_its_exit_code(error: Exception, code: ExitCode) -> None:
    assert isinstance(error, known_errors())
    assert exit_code(error) is code


def test_a_defect_is_no_known_error() -> None:
    assert not isinstance(ValueError("x"), known_errors())


def test_the_sentence_names_the_reason_of_the_broker() -> None:
    assert sentence(errors.SinkNotFound("there is no sink 'a'")) == "forebay: there is no sink 'a' (SINK_NOT_FOUND)"
    assert sentence(CommandFailed("no")) == "forebay: no"


def test_a_reason_that_the_text_gives_already_is_not_said_twice() -> None:
    assert sentence(StoreFailed("write", "broken")) == "forebay: store could not write: broken"


STORE_PROBLEMS = [
    (StoreLocked(Path("d"), 7), "STORE_LOCKED", {"directory": "d", "pid": "7"}),
    (StoreLocked(Path("d"), None), "STORE_LOCKED", {"directory": "d"}),
    (StoreNoSpace("write", "disk full"), "STORE_NO_SPACE", {"action": "write", "cause": "disk full"}),
    (
        StoreCorrupt(Family.META, "bad", key=b"\x01\xff"),
        "STORE_CORRUPT",
        {"family": str(Family.META), "cause": "bad", "key": "01ff"},
    ),
    (BackupDamaged("b", ["one", "two"]), "BACKUP_DAMAGED", {"pieces": "one; two"}),
    (TargetFailed("away"), "TARGET_FAILED", {}),
    (TargetMissing("no such directory", "d"), "TARGET_MISSING", {"target": "d"}),
]


@pytest.mark.parametrize(("error", "reason", "facts"), STORE_PROBLEMS, ids=lambda value: type(value).__name__)
def test_an_error_of_a_store_has_its_class_as_reason_for_programs_and_its_facts(
    error: Exception, reason: str, facts: dict[str, str]
) -> None:
    found = problem(error)

    assert (found["reason"], found["facts"], found["message"]) == (reason, facts, str(error))


def test_further_lines_of_a_failure_follow_its_sentence_and_are_in_its_message() -> None:
    failed = CommandFailed("the broker process ended; its log ends with:", lines=["  first", "  no disk left"])

    assert sentence(failed) == "forebay: the broker process ended; its log ends with:"
    assert further_lines(failed) == ("  first", "  no disk left")
    assert problem(failed)["message"].splitlines()[1:] == ["  first", "  no disk left"]
    assert further_lines(StoreFailed("write", "broken")) == ()
