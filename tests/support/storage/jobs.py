"""Jobs of backups and checkpoints, run in the thread of the test."""

from __future__ import annotations

from typing import Final, TypeVar

from forebay.broker.core.backups.values import BackupSummary
from forebay.broker.runtime.backups.engine import Job

_J = TypeVar("_J", bound=Job)


STEPS: Final = ("prepare", "take", "copy")


def begun(job: _J, last: str = "copy") -> _J:
    """Run a job up to one of ``STEPS``, by default until it has transferred the pages, and return it."""
    for step in STEPS[: STEPS.index(last) + 1]:
        match step:
            case "prepare":
                job.prepare()
            case "take":
                job.take()
            case _:
                job.copy_bulk(lambda: None)
    return job


def run(job: Job) -> BackupSummary:
    """Run a job to its end."""
    try:
        begun(job)
        job.copy_rest(lambda: None)
        return job.finish(lambda: 1.5)
    finally:
        job.remove()
