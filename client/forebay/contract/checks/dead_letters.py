"""Dead letters: what a target rejects, and its redrive."""

from __future__ import annotations

from typing import Any, Final

from forebay.contract.check import Check
from forebay.contract.checks.delivery import BACKOFF, OK
from forebay.contract.trial import Trial
from forebay.contract.violation import equal, exactly, that
from forebay.v1 import dead_letter_service_pb2 as pb
from forebay.v1 import record_pb2


def _letters(trial: Trial, sink: str, count: int) -> list[Any]:
    found = trial.wire.ask("DeadLetterService.ListDeadLetters", sink=sink).dead_letters
    return exactly(count, found, "the number of dead letters")


def _is_dead_lettered(stats: Any) -> bool:
    return any(account.dead_lettered == 1 for one in stats.subscriptions for account in one.partitions)


def _rejected(trial: Trial) -> None:
    sink = trial.sinks.create()
    trial.publish(sink, b"bad", b"good")
    bad, _ = trial.pull(sink, 2)
    equal(trial.nack(sink, bad, dead_letter={"reason": "no such customer"}), [OK], "the outcome of the nack")
    [letter] = _letters(trial, sink, 1)
    found = letter.record.value, letter.origin_offset, letter.error, letter.reason
    wanted = b"bad", 0, "no such customer", pb.DEAD_LETTER_REASON_REJECTED
    equal(found, wanted, "value, offset, error and reason of the dead letter")
    account = trial.account(sink)
    equal((account.dead_lettered, account.pending), (1, 1), "dead-lettered and pending records")


def _exhausted(trial: Trial) -> None:
    sink = trial.sinks.create(max_attempts=2, **BACKOFF)
    trial.publish(sink, b"bad")
    for _ in range(2):
        [record] = trial.pull(sink, 1)
        trial.nack(sink, record, retry={"reason": "timeout"})
    trial.wait_for(sink, _is_dead_lettered, "a record that failed max_attempts times is no dead letter after 5 s")
    [letter] = _letters(trial, sink, 1)
    equal((letter.reason, letter.attempts), (pb.DEAD_LETTER_REASON_MAX_ATTEMPTS, 2), "reason and attempts")


def _redriven(trial: Trial) -> None:
    sink = trial.sinks.create()
    trial.publish(sink, b"bad")
    [record] = trial.pull(sink, 1)
    trial.nack(sink, record, dead_letter={"reason": "down"})
    equal(trial.wire.ask("DeadLetterService.RedriveDeadLetters", sink=sink).redriven, 1, "the redriven records")
    [again] = trial.pull(sink, 1)
    equal((again.offset, again.record.value), (1, b"bad"), "offset and value of the redriven record")
    _letters(trial, sink, 0)


def _purged(trial: Trial) -> None:
    sink = trial.sinks.create()
    trial.publish(sink, b"bad")
    [record] = trial.pull(sink, 1)
    trial.nack(sink, record, dead_letter={"reason": "never"})
    equal(trial.wire.ask("DeadLetterService.PurgeDeadLetters", sink=sink).purged, 1, "the purged records")
    _letters(trial, sink, 0)


def _dropped(trial: Trial) -> None:
    sink = trial.sinks.create()
    trial.publish(sink, b"bad", b"good")
    bad, _ = trial.pull(sink, 2)
    equal(trial.nack(sink, bad, drop={"reason": "duplicate"}), [OK], "the outcome of the nack")
    [gap] = exactly(1, trial.wire.ask("SinkService.ListGaps", sink=sink).gaps, "the number of gaps")
    found = gap.first_offset, gap.last_offset, gap.reason, gap.subscription
    equal(found, (0, 0, record_pb2.DROP_REASON_REJECTED_BY_TARGET, "default"), "the gap of the dropped record")
    that((0, b"bad") in trial.replayed(sink), "a record that one subscription dropped cannot be replayed")


CHECKS: Final = (
    Check("dead letters", "a rejected record is listed with its origin and the target's words", _rejected),
    Check("dead letters", "max_attempts failed attempts make a dead letter", _exhausted),
    Check("dead letters", "a redrive appends the record again", _redriven),
    Check("dead letters", "a purge removes dead letters", _purged),
    Check("dead letters", "a dropped record is a gap of its subscription", _dropped),
)
