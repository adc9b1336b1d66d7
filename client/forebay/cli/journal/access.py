"""Access of commands to journals: options, the test of an engine, and the exit codes of errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.extras import needed_for
from forebay.cli.quantities import duration
from forebay.cli.report import CommandFailed, store_failed

if TYPE_CHECKING:
    from forebay.broker.storage.replication.engine import Engine

TAKEOVER_AFTER_S = 5.0
TakeoverAfter = Annotated[
    float,
    typer.Option(
        "--takeover-after",
        envvar="FOREBAY_TAKEOVER_AFTER_S",
        metavar="DURATION",
        parser=duration(0.1, 3_600),
        help="Silence after which the owner counts as ended; takeover_after_s of the brokers.",
    ),
]
"""``--takeover-after``."""


def suitable_engine(journal: str, *, must_exist: bool = False) -> Engine:
    """Return the engine of an address after the test that every broker makes at its start."""
    from forebay.broker.storage.replication.engines.addresses import open_engine
    from forebay.broker.storage.replication.probe import probe

    try:
        engine = open_engine(journal, creates=not must_exist)
    except FileNotFoundError as missing:
        raise no_journal(journal) from missing
    probe(engine)
    return engine


def no_journal(journal: str) -> CommandFailed:
    """Return the failure of a command for an address without a journal."""
    advice = "check the address, and that its file system is mounted"
    return CommandFailed(f"{journal}: the journal does not exist; {advice}", ExitCode.NOT_FOUND)


@contextmanager
def journal_errors(journal: str) -> Iterator[None]:
    """Report errors of the journal and of the directories with their exit codes."""
    with needed_for("this command", "broker"):
        from forebay.broker.core.shards import DirectoryAway
        from forebay.broker.storage.replication.engine import EngineAway, EngineUnsuitable, away_of
        from forebay.broker.storage.replication.moves.errors import (
            DirectoryUnsuitable,
            JournalEmpty,
            JournalInUse,
            JournalMissing,
            JournalNeeded,
            JournalOccupied,
            ShardMissing,
            ShardNotEmpty,
        )
    try:
        yield
    except EngineUnsuitable as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    except (EngineAway, DirectoryAway) as error:
        away = away_of(error)
        text = f"journal {away.address or journal} does not answer: {away.cause}"
        raise CommandFailed(text, ExitCode.UNAVAILABLE) from error
    except DirectoryUnsuitable as error:
        raise store_failed(error, ExitCode.USAGE) from error
    except (JournalEmpty, JournalMissing, ShardMissing) as error:
        raise store_failed(error, ExitCode.NOT_FOUND) from error
    except (JournalInUse, JournalNeeded, JournalOccupied, ShardNotEmpty) as error:
        raise store_failed(error, ExitCode.REFUSED) from error
    except OSError as error:
        raise CommandFailed(f"{error.filename or journal}: {error.strerror or error}") from error
