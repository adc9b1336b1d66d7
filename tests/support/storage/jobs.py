"""Jobs of backups and checkpoints, run in the thread of the test."""

from __future__ import annotations

from typing import TypeVar

from forebay.broker.core.backups.values import BackupSummary
from forebay.broker.runtime.backups.engine import Job

_J = TypeVar("_J", bound=Job)


def begun(job: _J) -> _J:
    """Run a job until it has transferred the pages, and return it."""
    job.prepare()
    job.take()
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
