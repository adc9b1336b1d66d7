"""Bounds: requests over them are rejected as the contract states, before anything is done."""

from __future__ import annotations

from typing import Final

from forebay.contract.check import Check
from forebay.contract.trial import Trial
from forebay.contract.violation import equal, that
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2, sink_pb2

QUERY_BYTES_MAX: Final = 64 << 10
"""Largest request of a query."""

ACK_ELEMENTS_MAX: Final = 100_000
"""Most elements in the request of an ack."""

MESSAGE_BYTES_MAX: Final = 32 << 20
"""Largest message."""


def _malformed(trial: Trial) -> None:
    trial.wire.refused_raw("SinkService.GetSink", Reason.INVALID_REQUEST, b"\x0a\xff\xff\xff")


def _too_many_bytes(trial: Trial) -> None:
    unknown_field = b"\xfa\x7f" + _varint(QUERY_BYTES_MAX) + bytes(QUERY_BYTES_MAX)
    trial.wire.refused_raw("SinkService.GetSink", Reason.REQUEST_TOO_LARGE, unknown_field)


def _too_many_elements(trial: Trial) -> None:
    empty = buffer_service_pb2.AckRequest(acks=[buffer_service_pb2.AckRanges()]).SerializeToString()
    trial.wire.refused_raw("BufferService.Ack", Reason.REQUEST_TOO_LARGE, empty * (ACK_ELEMENTS_MAX + 1))


def _large_record(trial: Trial) -> None:
    sink = trial.sinks.create()
    bound = trial.wire.ask("AdminService.GetBrokerInfo").record_bytes_max
    if bound >= MESSAGE_BYTES_MAX - 1_024:  # no message can exceed it
        return
    records = [{"value": bytes(bound + 1)}]
    trial.wire.refused("BufferService.PublishBatch", Reason.RECORD_TOO_LARGE, sink=sink, records=records)
    equal(trial.replayed(sink), [], "what was stored of a record that is too large")


def _full(trial: Trial) -> None:
    sink = trial.sinks.create(max_disk_cache=2, overflow=sink_pb2.OVERFLOW_REJECT)
    trial.publish(sink, b"a", b"b")
    trial.wire.refused("BufferService.PublishBatch", Reason.SINK_FULL, sink=sink, records=[{"value": b"c"}])
    equal(trial.replayed(sink), [(0, b"a"), (1, b"b")], "the content of a full sink")


def _dropped(trial: Trial) -> None:
    sink = trial.sinks.create(max_disk_cache=2, buffer_page_size=1, overflow=sink_pb2.OVERFLOW_DROP_OLDEST)
    for value in (b"a", b"b", b"c"):
        trial.publish(sink, value)
    equal(trial.replayed(sink, start_offset=1), [(1, b"b"), (2, b"c")], "the content of a sink that drops the oldest")
    gaps = trial.wire.ask("SinkService.ListGaps", sink=sink).gaps
    that([(gap.first_offset, gap.last_offset) for gap in gaps] == [(0, 0)], "the dropped record has no gap")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


CHECKS: Final = (
    Check("limits", "bytes that are no message: INVALID_REQUEST", _malformed),
    Check("limits", "a query of more than 64 KiB: REQUEST_TOO_LARGE", _too_many_bytes),
    Check("limits", "an ack of more than 100,000 elements: REQUEST_TOO_LARGE", _too_many_elements),
    Check("limits", "a record above record_bytes_max: RECORD_TOO_LARGE", _large_record),
    Check("limits", "a full sink that rejects: SINK_FULL with a delay", _full),
    Check("limits", "a full sink that drops the oldest: a gap", _dropped),
)
