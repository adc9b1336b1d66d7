"""Epochs: staged pages become visible together, and once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from forebay.contract.check import Check
from forebay.contract.checks.publish import RPC, opened, opening, page, receipt
from forebay.contract.trial import Trial
from forebay.contract.violation import equal, that
from forebay.contract.wire import refused_for
from forebay.errors.reasons import Reason
from forebay.v1 import sink_pb2


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer with one run."""

    trial: Trial
    sink: str
    ticket: int

    @property
    def names(self) -> dict[str, Any]:
        """Fields that a stage and a commit have in common."""
        return {"producer": f"producer-{self.trial.unique}", "run": "run-1", "ticket": self.ticket}

    def stage(self, epoch: int, token: str, *values: bytes) -> None:
        """Stage a page for an epoch. Raises `Violation`."""
        stage = {**self.names, "epoch": epoch, "token": token}
        with self.trial.wire.stream(RPC, opening(self.sink, f"w-{token}", stage=stage), page(0, *values)) as stream:
            opened(stream)
            that(receipt(stream).staged, "the receipt of a staged page does not say so")
            stream.finish()

    def commit(self, epoch: int, token: str, records: int) -> Any:
        """Return the answer to a commit of one token with one page."""
        return self.trial.wire.ask("EpochService.CommitEpoch", commits=[self.wanted(epoch, token, records)])

    def wanted(self, epoch: int, token: str, records: int) -> dict[str, Any]:
        """Return the commit of one token with one page."""
        parts = [{"partition": 0, "pages": 1, "records": records}]
        return {"sink": self.sink, **self.names, "epoch": epoch, "tokens": [{"token": token, "parts": parts}]}


def producer(trial: Trial, **settings: Any) -> Producer:
    """Return a producer of a new sink."""
    sink = trial.sinks.create(**settings)
    return Producer(trial, sink, trial.wire.ask("EpochService.TakeTicket", sink=sink).ticket)


def _committed(trial: Trial) -> None:
    one = producer(trial)
    one.stage(1, "t1", b"a", b"b")
    equal(trial.replayed(one.sink), [], "the visible records before the commit")
    answer = one.commit(1, "t1", 2)
    equal(answer.already_committed, False, "`already_committed` of the first commit")
    equal(trial.replayed(one.sink), [(0, b"a"), (1, b"b")], "the visible records after the commit")
    equal(one.commit(1, "t1", 2).already_committed, True, "`already_committed` of the repeated commit")
    equal(trial.replayed(one.sink), [(0, b"a"), (1, b"b")], "the visible records after the repeated commit")
    epoch = trial.wire.ask("EpochService.GetEpoch", sink=one.sink, producer=one.names["producer"]).epoch
    equal((epoch.epoch, [part.records for part in epoch.parts]), (1, [2]), "number and records of the last epoch")


def _retried(trial: Trial) -> None:
    one = producer(trial)
    one.stage(1, "first-try", b"a")
    one.stage(1, "second-try", b"a")
    one.commit(1, "second-try", 1)
    equal(trial.replayed(one.sink), [(0, b"a")], "the visible records of an epoch with two attempts")
    equal(trial.stats(one.sink).staged_tokens, 0, "the tokens that are still staged after the commit")


def _incomplete(trial: Trial) -> None:
    one = producer(trial)
    one.stage(1, "t1", b"a")
    commit = one.wanted(1, "t1", 2)
    trial.wire.refused("EpochService.CommitEpoch", Reason.STAGED_INCOMPLETE, commits=[commit])
    equal(trial.replayed(one.sink), [], "the visible records after a rejected commit")


def _aborted(trial: Trial) -> None:
    one = producer(trial)
    one.stage(1, "t1", b"a")
    names = {"sink": one.sink, "producer": one.names["producer"], "epoch": 1, "tokens": ["t1"]}
    equal(trial.wire.ask("EpochService.AbortEpoch", **names).aborted, 1, "the number of aborted tokens")
    trial.wire.refused("EpochService.CommitEpoch", Reason.STAGED_INCOMPLETE, commits=[one.wanted(1, "t1", 1)])


def _fenced(trial: Trial) -> None:
    one = producer(trial)
    one.stage(5, "t5", b"a")
    one.commit(5, "t5", 1)
    with refused_for(Reason.EPOCH_FENCED, "a stage of an older epoch"):
        one.stage(4, "t4", b"b")


def _superseded(trial: Trial) -> None:
    one = producer(trial)
    one.stage(1, "t1", b"a")
    newer = Producer(trial, one.sink, trial.wire.ask("EpochService.TakeTicket", sink=one.sink).ticket)
    that(newer.ticket > one.ticket, "a later ticket is not higher")
    stage = {**newer.names, "run": "run-2", "epoch": 1, "token": "t2"}
    with trial.wire.stream(RPC, opening(one.sink, "w-t2", stage=stage), page(0, b"a")) as stream:
        opened(stream)
        receipt(stream)
        stream.finish()
    trial.wire.refused("EpochService.CommitEpoch", Reason.EPOCH_FENCED, commits=[one.wanted(1, "t1", 1)])


def _unsupported(trial: Trial) -> None:
    one = producer(trial, buffer_mode=sink_pb2.BUFFER_MODE_MEMORY)
    with refused_for(Reason.STAGING_UNSUPPORTED, "a stage of a sink in memory"):
        one.stage(1, "t1", b"a")


CHECKS: Final = (
    Check("epochs", "a commit makes staged records visible, once", _committed),
    Check("epochs", "a commit discards the pages of other attempts", _retried),
    Check("epochs", "a commit of what is not staged: STAGED_INCOMPLETE", _incomplete),
    Check("epochs", "an abort discards staged pages", _aborted),
    Check("epochs", "an older epoch: EPOCH_FENCED", _fenced),
    Check("epochs", "an older run: EPOCH_FENCED", _superseded),
    Check("epochs", "a sink in memory: STAGING_UNSUPPORTED", _unsupported),
)
