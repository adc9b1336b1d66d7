"""Jobs of backups and checkpoints, run in the thread of the test."""

from __future__ import annotations

from forebay.broker.core.backups.values import BackupSummary
from forebay.broker.runtime.backups.engine import Job


def run(job: Job) -> BackupSummary:
    """Run a job to its end."""
    try:
        job.prepare()
        job.take()
        job.copy_bulk(lambda: None)
        job.copy_rest(lambda: None)
        return job.finish(lambda: 1.5)
    finally:
        job.remove()
