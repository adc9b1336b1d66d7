"""A follower whose journal does not answer ends soon after it was asked to stop."""

from __future__ import annotations

import os
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from forebay.broker.serve import STOP_S
from forebay.broker.storage.replication.engine import name_of
from forebay.broker.storage.replication.engines.directory import DirectoryEngine
from forebay.broker.storage.replication.read_ahead import AHEAD_RECORDS
from tests.support.calls.eventually import until
from tests.support.processes.broker import serve_command
from tests.support.storage.journals import batch_of, take_over

MARGIN_S = 3.0
"""Time of a loaded machine for the end of a process."""


@pytest.mark.parametrize("records", [1, AHEAD_RECORDS + 20], ids=["read", "read ahead"])
def test_a_follower_that_waits_for_a_read_ends_soon_and_well_when_it_is_asked_to_stop(
    tmp_path: Path, records: int
) -> None:
    journal, written = tmp_path / "journal", []
    with closing(take_over(DirectoryEngine(journal), b"a")) as owner:
        for number in range(records):
            owner.append(batch_of(number))
        hanging = journal / name_of(owner.position)
    os.mkfifo(hanging)  # a read of it waits
    environment = {"FOREBAY_JOURNAL": str(journal), "FOREBAY_TAKEOVER_AFTER_S": "60"}
    with serve_command(tmp_path / "data", environment=environment) as follower:

        def reads() -> bool:
            with suppress(OSError):  # no reader yet
                written.append(os.open(hanging, os.O_WRONLY | os.O_NONBLOCK))
            return bool(written)

        until(reads)
        began = time.monotonic()

        assert follower.terminate() == 0

        assert time.monotonic() - began < STOP_S + MARGIN_S
        assert "follower has not stopped in time" in follower.log.read_text()
    for handle in written:
        os.close(handle)


def test_a_follower_whose_journal_answers_ends_in_order(tmp_path: Path) -> None:
    with closing(take_over(DirectoryEngine(tmp_path / "journal"), b"a")) as owner:
        owner.append(batch_of(1))
    environment = {"FOREBAY_JOURNAL": str(tmp_path / "journal"), "FOREBAY_TAKEOVER_AFTER_S": "60"}
    with serve_command(tmp_path / "data", environment=environment) as follower:
        until((tmp_path / "data" / "db" / "CURRENT").exists)

        assert follower.terminate() == 0

        assert "follower has not stopped in time" not in follower.log.read_text()
