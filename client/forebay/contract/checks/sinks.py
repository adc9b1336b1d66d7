"""Sinks and subscriptions: creation, change, incarnations."""

from __future__ import annotations

from typing import Any, Final

from forebay.contract.check import Check
from forebay.contract.trial import Trial
from forebay.contract.violation import equal, that
from forebay.errors.reasons import Reason


def _created_once(trial: Trial) -> None:
    name = trial.sinks.name()
    request: dict[str, Any] = {"name": name, "settings": {"partitions": 2}}
    first = trial.wire.ask("SinkService.CreateSink", **request)
    second = trial.wire.ask("SinkService.CreateSink", **request)
    equal((first.created, second.created), (True, False), "`created` of two equal requests")
    equal(second.sink.incarnation, first.sink.incarnation, "the incarnation of the second answer")
    equal(second.sink.settings.partitions, 2, "the number of partitions")


def _listed(trial: Trial) -> None:
    wanted = {trial.sinks.create() for _ in range(3)}
    found: set[str] = set()
    token = ""
    while True:
        answer = trial.wire.ask("SinkService.ListSinks", page_size=2, page_token=token)
        that(len(answer.sinks) <= 2, f"a page of 2 has {len(answer.sinks)} sinks")
        found.update(sink.name for sink in answer.sinks)
        token = answer.next_page_token
        if not token:
            break
    that(wanted <= found, f"the list lacks {', '.join(sorted(wanted - found))}")


def _updated(trial: Trial) -> None:
    sink = trial.sinks.create(partitions=1, max_attempts=7)
    request = {"settings": {"partitions": 3, "max_attempts": 9}, "update_mask": {"paths": ["partitions"]}}
    settings = trial.wire.ask("SinkService.UpdateSink", name=sink, **request).sink.settings
    equal((settings.partitions, settings.max_attempts), (3, 7), "partitions and max_attempts")


def _replaced(trial: Trial) -> None:
    sink = trial.sinks.create()
    old = trial.wire.ask("SinkService.GetSink", name=sink).sink.incarnation
    trial.wire.ask("SinkService.DeleteSink", name=sink)
    trial.wire.refused("SinkService.GetSink", Reason.SINK_NOT_FOUND, name=sink)
    new = trial.wire.ask("SinkService.CreateSink", name=sink).sink.incarnation
    that(old != new, "a recreated sink has the incarnation of the deleted one")
    facts = trial.wire.refused("BufferService.Pull", Reason.SINK_REPLACED, sink=sink, incarnation=old)
    equal((facts["named"], facts["current"]), (old, new), "`named` and `current` of SINK_REPLACED")
    trial.wire.ask("BufferService.Pull", sink=sink, incarnation=new)


def _independent(trial: Trial) -> None:
    sink = trial.sinks.create()
    trial.publish(sink, b"a", b"b")
    trial.wire.ask("SinkService.CreateSubscription", sink=sink, name="second")
    for record in trial.pull(sink, 2):
        trial.ack(sink, record)
    pending = trial.account(sink).pending, trial.account(sink, "second").pending
    equal(pending, (0, 2), "the pending records of `default` and of a second subscription")


def _sought(trial: Trial) -> None:
    sink = trial.sinks.create(retain_acked_bytes=1 << 20)
    trial.publish(sink, b"a", b"b", b"c")
    for record in trial.pull(sink, 3):
        trial.ack(sink, record)
    trial.wire.ask("SinkService.SeekSubscription", sink=sink, to={"offset": 1})
    equal([record.record.value for record in trial.pull(sink, 2)], [b"b", b"c"], "the records after a seek to 1")


def _paused(trial: Trial) -> None:
    sink = trial.sinks.create()
    trial.wire.ask("SinkService.PauseSink", name=sink, reason="contract")
    trial.publish(sink, b"a")
    trial.pull(sink, 0, wait_s=0)
    trial.wire.ask("SinkService.ResumeSink", name=sink)
    trial.pull(sink, 1)


CHECKS: Final = (
    Check("sinks", "an equal request creates a sink once", _created_once),
    Check("sinks", "the list has every sink, in pages", _listed),
    Check("sinks", "an update changes what its mask names", _updated),
    Check("sinks", "a recreated sink is another one: SINK_REPLACED", _replaced),
    Check("sinks", "a paused sink delivers nothing until it is resumed", _paused),
    Check("subscriptions", "each has an account of its own", _independent),
    Check("subscriptions", "a seek delivers records again", _sought),
)
