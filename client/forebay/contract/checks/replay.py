"""Replay: reading again, which settles nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from forebay.contract.check import Check
from forebay.contract.trial import Trial, values_of
from forebay.contract.violation import Violation, equal, exactly, that
from forebay.errors.reasons import Reason
from forebay.v1 import record_pb2

RPC: Final = "BufferService.Replay"


def _read(trial: Trial) -> None:
    sink = trial.sinks.create(buffer_page_size=1)
    for value in (b"a", b"b", b"c", b"d"):
        trial.publish(sink, value)
    equal(trial.replayed(sink), [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")], "the replayed records")
    equal(trial.replayed(sink, start_offset=1, end_offset=3), [(1, b"b"), (2, b"c")], "the records from 1 to 3")
    equal(trial.account(sink).pending, 4, "the pending records after a replay")


def _opened(trial: Trial) -> None:
    sink = trial.sinks.create()
    trial.publish(sink, b"a", b"b")
    with closing(trial.wire.responses(RPC, sink=sink, partition=0, start_offset=1)) as responses:
        first = _next(responses)
    that(first.HasField("opened"), "the first answer of Replay is not `opened`")
    equal((first.opened.start_offset, first.opened.end_offset), (1, 2), "start and end of `opened`")


def _followed(trial: Trial) -> None:
    sink = trial.sinks.create()
    with closing(trial.wire.responses(RPC, sink=sink, partition=0, follow=True)) as responses:
        _next(responses)
        trial.publish(sink, b"new")
        found = _next(responses).pages.pages
        equal([value for page in found for value in values_of(page.body)], [b"new"], "the record that was followed")


def _bounded(trial: Trial) -> None:
    sink = trial.sinks.create()
    trial.publish(sink, b"a")
    facts = trial.wire.refused(RPC, Reason.OFFSET_AHEAD, sink=sink, start_offset=2)
    equal((facts["requested"], facts["next"]), ("2", "1"), "`requested` and `next` of OFFSET_AHEAD")


def _gap(trial: Trial) -> None:
    sink = trial.sinks.create(buffer_page_size=1)
    for value in (b"a", b"b"):
        trial.publish(sink, value)
    trial.wire.ask("SinkService.PurgeSink", name=sink, partition=0, until_offset=1)
    gaps: list[Any] = []
    for response in trial.wire.responses(RPC, sink=sink, partition=0, start_offset=0):
        if response.HasField("gap"):
            gaps.append(response.gap)
    [gap] = exactly(1, gaps, "the number of gaps in a replay over purged records")
    found = gap.first_offset, gap.last_offset, gap.reason
    equal(found, (0, 0, record_pb2.DROP_REASON_PURGED), "first and last offset and reason of the gap")


def _next(responses: Iterator[Any]) -> Any:
    for response in responses:
        return response
    raise Violation("the broker ended the replay before its answer")


CHECKS: Final = (
    Check("replay", "reads a range of offsets and settles nothing", _read),
    Check("replay", "begins with its bounds", _opened),
    Check("replay", "follows the end", _followed),
    Check("replay", "a start beyond the end: OFFSET_AHEAD with the end", _bounded),
    Check("replay", "names the gap of purged records", _gap),
)
