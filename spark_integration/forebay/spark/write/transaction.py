"""Transaction of a write in the driver: begin a run, then commit its attempts or abort them.

Spark names the attempts that it accepted, so that a killed or duplicated attempt is never committed. A commit is
retried until its outcome is known, because Spark repeats a micro-batch whose commit failed, and calls abort before
that. Both are harmless if the epoch is already committed.

Staged rows use space. Therefore rows that can no longer be committed are discarded as soon as that is known: a failed
task discards its own attempt. A micro-batch may be repeated, so that only attempts of a stream are discarded. A failed
batch is never repeated: its epoch is closed, which discards all of its rows and rejects attempts that still write.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from forebay.client import CommittedEpochs, Epoch, EpochCommit, EpochContent, StagedToken, errors
from forebay.spark import telemetry
from forebay.spark.connection.broker import connect, take_ticket
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Delivery, Target, WriteOptions
from forebay.spark.remedies import explained
from forebay.spark.write.content import RowContent
from forebay.spark.write.epochs import StagedAttempt, WriteRun, own_id

ABORT_PATIENCE_S: Final = 5.0
"""Time limit of an abort; rows that remain staged expire by the sink's `staging_ttl`."""

log = logging.getLogger(__name__)


def begin_batch(options: WriteOptions, incarnation: str) -> WriteRun | None:
    """Create the run of a batch; None for at least once. Raises `ForebaySparkError`."""
    if options.delivery is Delivery.AT_LEAST_ONCE:
        return None
    ticket = take_ticket(options.target, incarnation, patience_s=options.target.connect_timeout_s)
    return WriteRun(ticket, None if options.epoch_from_query else own_id(), incarnation)


def begin_stream(options: WriteOptions, incarnation: str, *, patience_s: float) -> WriteRun | None:
    """Create the run of a micro-batch; None for at least once. Raises `ForebaySparkError`."""
    if options.delivery is Delivery.AT_LEAST_ONCE:
        return None
    return WriteRun(take_ticket(options.target, incarnation, patience_s=patience_s), None, incarnation)


def commit(writes: Sequence[tuple[Target, Sequence[StagedAttempt]]], *, patience_s: float) -> CommittedEpochs:
    """Commit all staged rows atomically, in all sinks of one broker. Raises `ForebaySparkError`.

    All attempts of one write belong to one epoch. Attempts without rows are named, too: tokens distinguish a second
    write of the same run with the same name. A write that no task has staged has nothing to commit.

    A repeated micro-batch may have writes that its first run did not have. Those that are committed already are
    compared first, and then the others are committed, together.
    """
    named = [(target, staged) for target, staged in writes if staged]
    if not named:
        return CommittedEpochs((), already_committed=False)
    commits = [_commit_of(target, staged) for target, staged in named]
    repeats = [place for place, (_, staged) in enumerate(named) if all(one.already_committed for one in staged)]
    others = [place for place in range(len(named)) if place not in repeats]
    epochs: dict[int, Epoch] = {}
    with telemetry.commit(
        ",".join(one.sink for one in commits),
        producer=commits[0].producer,
        epoch=commits[0].epoch,
        records=sum(token.records for one in commits for token in one.tokens),
        tasks=[one.trace for _, staged in named for one in staged],
    ):
        answers = [
            (places, _committed([(named[place][0], commits[place]) for place in places], patience_s))
            for places in (repeats, others)
            if places
        ]
    for places, done in answers:
        epochs.update(zip(places, done.epochs, strict=True))
        _log_committed([commits[place] for place in places], done)
    in_order = tuple(epochs[place] for place in range(len(named)))
    return CommittedEpochs(in_order, already_committed=all(done.already_committed for _, done in answers))


def _log_committed(commits: Sequence[EpochCommit], done: CommittedEpochs) -> None:
    for one in commits:
        log.info(
            "epoch was committed sink=%s producer=%s epoch=%d records=%d already_committed=%s",
            one.sink,
            one.producer,
            one.epoch,
            sum(token.records for token in one.tokens),
            done.already_committed,
        )
    if done.already_committed:
        _log_different_rows(commits, done)


def _committed(wanted: Sequence[tuple[Target, EpochCommit]], patience_s: float) -> CommittedEpochs:
    target, commits = wanted[0][0], [commit for _, commit in wanted]
    try:
        with connect(target, patience_s=patience_s) as client:
            return client.epochs.commit(commits, patience_s=patience_s)
    except (errors.BrokerUnavailable, errors.DeadlineExceeded) as error:
        raise _outcome_unknown(error, target, commits) from error
    except errors.ForebayError as error:
        raise explained(error, _target_of(error, wanted), doing="commit to") from error


def _target_of(error: errors.ForebayError, wanted: Sequence[tuple[Target, EpochCommit]]) -> Target:
    """Return the target whose sink or producer an error names; the first target by default."""
    for fact in ("sink", "producer"):
        for target, commit in wanted:
            if error.facts.get(fact) == getattr(commit, fact):
                return target
    return wanted[0][0]


def _outcome_unknown(error: errors.ForebayError, target: Target, commits: Sequence[EpochCommit]) -> ForebaySparkError:
    """Return the error for a commit whose answer did not arrive: all of its rows are visible, or none."""
    first = commits[0]
    return ForebaySparkError(
        f"The outcome of a commit to sink {target.sink!r} at {','.join(target.endpoints)} is unknown: its answer"
        f" did not arrive: {error.reason or type(error).__name__}: {error}",
        "All of its rows became visible, or none. Start a streaming query again: it repeats the commit, and no row is "
        "written twice. Look before you repeat a batch write, which would write its rows again: it was committed if "
        f"Client.epochs.get({first.sink!r}, {first.producer!r}) returns epoch {first.epoch}.",
    )


def _commit_of(target: Target, staged: Sequence[StagedAttempt]) -> EpochCommit:
    tokens = [StagedToken(one.stage.token, one.parts, summary=one.summary) for one in staged]
    return EpochCommit.of(target.sink, staged[0].stage, tokens, content=_content_of(staged), check=staged[0].check)


def _content_of(staged: Sequence[StagedAttempt]) -> EpochContent | None:
    """Return the content of all attempts together; None if one of them was not counted."""
    total = RowContent()
    for one in staged:
        if one.content is None:
            return None
        total += one.content
    return total.of_epoch


def _log_different_rows(commits: Sequence[EpochCommit], done: CommittedEpochs) -> None:
    """Log epochs whose repeat has the same number of rows with other contents."""
    for sent, stored in zip(commits, done.epochs, strict=True):
        if sent.content is not None and stored.digest and sent.content.digest != stored.digest:
            log.warning(
                "epoch was repeated with other rows, and the first ones stay sink=%s producer=%s epoch=%d records=%d",
                sent.sink,
                sent.producer,
                sent.epoch,
                sent.content.records,
            )


def abort(target: Target, staged: Sequence[StagedAttempt]) -> None:
    """Discard the staged rows of attempts, if the broker is available. Never raises."""
    if not staged:
        return
    stage = staged[0].stage
    try:
        with connect(target, patience_s=ABORT_PATIENCE_S) as client:
            tokens = [one.stage.token for one in staged]
            client.epochs.abort(target.sink, stage.producer, stage.epoch, tokens, incarnation=stage.incarnation)
    except errors.ForebayError as error:
        _log_staged_rows(target, stage.producer, error)


def close(target: Target, run: WriteRun) -> None:
    """End a failed batch with an empty commit, if the broker is available. Never raises.

    If its own commit was applied and only the answer was lost, that commit stays: the broker rejects the empty one.
    """
    if run.batch is None:
        return
    nothing = EpochCommit(
        target.sink, producer=run.batch, epoch=0, run=run.batch, ticket=run.ticket, incarnation=run.incarnation
    )
    try:
        with connect(target, patience_s=ABORT_PATIENCE_S) as client:
            client.epochs.commit([nothing], patience_s=ABORT_PATIENCE_S)
    except errors.EpochConflict:
        log.info("batch was committed although Spark took it for failed sink=%s producer=%s", target.sink, run.batch)
    except errors.ForebayError as error:
        _log_staged_rows(target, run.batch, error)


def _log_staged_rows(target: Target, producer: str, error: errors.ForebayError) -> None:
    reason = error.reason
    log.warning("staged rows were left to staging_ttl sink=%s producer=%s reason=%s", target.sink, producer, reason)
