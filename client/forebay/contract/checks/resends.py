"""Retry queue of a sink in relaxed order: new records pass failed ones, which a holder may lease."""

from __future__ import annotations

from typing import Any, Final

from forebay.contract.check import Check
from forebay.contract.trial import Trial
from forebay.contract.violation import equal, exactly
from forebay.v1 import buffer_service_pb2, sink_pb2

SETTINGS: Final[dict[str, Any]] = {
    "ordering": sink_pb2.ORDERING_RELAXED,
    "buffer_page_size": 1,
    "retry_backoff_min": {"seconds": 600},
    "retry_backoff_max": {"seconds": 600},
}
"""Failed records wait in the retry queue for longer than a check takes."""


def _failed(trial: Trial) -> str:
    """Return a sink whose first of two records has failed once."""
    sink = trial.sinks.create(**SETTINGS)
    trial.publish(sink, b"bad")
    trial.publish(sink, b"good")
    bad, good = trial.pull(sink, 2)
    equal(trial.nack(sink, bad, retry={"reason": "down"}), [buffer_service_pb2.SETTLE_OUTCOME_OK], "the nack")
    equal(trial.ack(sink, good), [buffer_service_pb2.SETTLE_OUTCOME_OK], "the ack of the record after it")
    return sink


def _leased(trial: Trial, sink: str, holder: str, count: int) -> list[Any]:
    answer = trial.wire.ask(
        "ResendService.LeaseResends", sink=sink, holder=holder, duration={"seconds": 60}, before_due=True
    )
    return exactly(count, answer.partitions, f"the partitions leased to {holder}")


def _passed(trial: Trial) -> None:
    sink = _failed(trial)
    account = trial.account(sink)
    equal((account.acked, account.parked_records), (1, 1), "acked records, and those in the retry queue")


def _settled(trial: Trial) -> None:
    sink = _failed(trial)
    [held] = _leased(trial, sink, "first", 1)
    found = [(each.first_offset, each.last_offset) for each in held.ranges]
    equal(found, [(0, 0)], "the leased offsets")
    _leased(trial, sink, "second", 0)
    answer = trial.wire.ask("ResendService.SettleResends", sink=sink, holder="first", partitions=[held])
    outcomes = {result.outcome for result in answer.results}
    equal(outcomes, {buffer_service_pb2.SETTLE_OUTCOME_OK}, "the outcome of the settled set")
    equal(trial.account(sink).pending, 0, "the pending records")


def _released(trial: Trial) -> None:
    sink = _failed(trial)
    _leased(trial, sink, "first", 1)
    released = trial.wire.ask("ResendService.ReleaseResends", sink=sink, holder="first").records
    equal(released, 1, "the released records")
    _leased(trial, sink, "second", 1)


CHECKS: Final = (
    Check("resends", "in relaxed order a failed record holds back no other", _passed),
    Check("resends", "a leased set is settled by its holder", _settled),
    Check("resends", "a released set can be leased by another holder", _released),
)
