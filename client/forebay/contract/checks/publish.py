"""Publishing: receipts, order, and pages that are stored once however often they are sent."""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

from forebay.contract.check import Check
from forebay.contract.refusal import of_status
from forebay.contract.trial import Trial
from forebay.contract.violation import Violation, equal, exactly, that
from forebay.contract.wire import Stream, refused_for
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2

RPC: Final = "BufferService.Publish"


def page(sequence: int, *values: bytes, **fields: Any) -> pb.PublishRequest:
    """Return the message with a page of these values; ``fields`` replace fields of it."""
    run = record_pb2.RecordRun(value_lengths=[len(value) for value in values], values=b"".join(values))
    body = record_pb2.RecordPage(runs=[run]).SerializeToString()
    given: dict[str, Any] = {
        "sequence": sequence,
        "encoding": record_pb2.ENCODING_RECORDS,
        "record_count": len(values),
        "crc32": crc32(body),
        "body": body,
    }
    return pb.PublishRequest(page=pb.PublishPage(**{**given, **fields}))


def opening(sink: str, writer_id: str, **fields: Any) -> pb.PublishRequest:
    """Return the first message of a stream."""
    return pb.PublishRequest(open=pb.PublishOpen(sink=sink, writer_id=writer_id, **fields))


def opened(stream: Stream) -> pb.PublishOpened:
    """Return the first answer of a stream."""
    answer: pb.PublishResponse = stream.receive()
    if not answer.HasField("opened"):
        raise Violation("the first answer of Publish is not `opened`")
    return answer.opened


def answered(stream: Stream) -> pb.PublishAnswer:
    """Return the next answer to a page."""
    response: pb.PublishResponse = stream.receive()
    if not response.HasField("answer"):
        raise Violation("a page was not answered with `answer`")
    return response.answer


def receipt(stream: Stream) -> record_pb2.Receipt:
    """Return the next answer, which has to be a receipt."""
    answer = answered(stream)
    if not answer.HasField("receipt"):
        raise Violation(f"a page was rejected with {of_status(answer.refusal)}")
    return answer.receipt


def _batch(trial: Trial) -> None:
    sink = trial.sinks.create()
    first = trial.publish(sink, b"a", b"b")
    second = trial.publish(sink, b"c")
    found = [(one.first_offset, one.last_offset) for one in (*first, *second)]
    equal(found, [(0, 1), (2, 2)], "the offsets of the receipts")
    least = min(one.durability for one in (*first, *second))
    that(least >= record_pb2.DURABILITY_DISK, f"the durability is {least}, must be DISK or REPLICATED")
    equal(trial.replayed(sink), [(0, b"a"), (1, b"b"), (2, b"c")], "the stored records")


def _text(trial: Trial) -> None:
    sink = trial.sinks.create()
    record = {"text": "12 °C", "key_text": "Köln", "headers": [{"key": "unit", "text": "°C"}]}
    trial.wire.ask("BufferService.PublishBatch", sink=sink, records=[record])
    [shown] = exactly(1, trial.wire.ask("BufferService.Peek", sink=sink).records, "the number of shown records")
    found = shown.value, shown.key, dict(shown.headers)
    equal(found, ("12 °C", "Köln", {"unit": "°C"}), "a record of texts")


def _keyed(trial: Trial) -> None:
    sink = trial.sinks.create(partitions=4)
    keys = [b"key-%d" % number for number in range(16)]
    records = [{"key": key, "value": key} for key in keys]
    trial.wire.ask("BufferService.PublishBatch", sink=sink, records=records)
    for partition in range(4):
        wanted = [key for key in keys if crc32(key) % 4 == partition]
        found = [value for _, value in trial.replayed(sink, partition)]
        equal(found, wanted, f"the keys in partition {partition}")


def _peeked(trial: Trial) -> None:
    sink = trial.sinks.create(partitions=3)
    for partition in range(3):
        trial.publish(sink, b"%d" % partition, partition=partition)
    shown = trial.wire.ask("BufferService.Peek", sink=sink, all_partitions=True).records
    equal([(one.partition, one.value) for one in shown], [(0, "0"), (1, "1"), (2, "2")], "a look over all partitions")


def _pages(trial: Trial) -> None:
    sink = trial.sinks.create()
    with trial.wire.stream(RPC, opening(sink, trial.unique), page(5, b"a", b"b"), page(6, b"c")) as stream:
        info = opened(stream)
        that(info.incarnation, "`opened` names no incarnation")
        equal(info.partitions, 1, "the partitions of `opened`")
        answers = [answered(stream), answered(stream)]
        equal([one.sequence for one in answers], [5, 6], "the sequences of the answers")
        found = [(one.receipt.first_offset, one.receipt.last_offset) for one in answers]
        equal(found, [(0, 1), (2, 2)], "the offsets of the receipts")
        stream.send(pb.PublishRequest(close=pb.PublishClose()))
        equal(stream.finish(), [], "the answers after the last page")


def _resent(trial: Trial) -> None:
    sink = trial.sinks.create()
    with trial.wire.stream(RPC, opening(sink, trial.unique), page(0, b"a"), page(1, b"b")) as stream:
        epoch = opened(stream).writer_epoch
        receipt(stream)
        receipt(stream)
    again = opening(sink, trial.unique, writer_epoch=epoch)
    with trial.wire.stream(RPC, again, page(1, b"b"), page(2, b"c")) as stream:
        equal(dict(opened(stream).next_sequences), {0: 2}, "`next_sequences` of a resumed writer")
        found = [(one.first_offset, one.duplicate) for one in (receipt(stream), receipt(stream))]
        equal(found, [(1, True), (2, False)], "offset and `duplicate` of a page sent again and of a new one")
    equal(trial.replayed(sink), [(0, b"a"), (1, b"b"), (2, b"c")], "the stored records")


def _gap(trial: Trial) -> None:
    sink = trial.sinks.create()
    with trial.wire.stream(RPC, opening(sink, trial.unique), page(0, b"a"), page(2, b"c"), page(1, b"b")) as stream:
        opened(stream)
        receipt(stream)
        of_status(answered(stream).refusal).check(Reason.SEQUENCE_GAP, "a page after a missing one")
        equal(receipt(stream).first_offset, 1, "the offset of the missing page, sent afterwards")


def _conflict(trial: Trial) -> None:
    sink = trial.sinks.create()
    with trial.wire.stream(RPC, opening(sink, trial.unique), page(0, b"a"), page(0, b"other")) as stream:
        opened(stream)
        receipt(stream)
        of_status(answered(stream).refusal).check(Reason.SEQUENCE_CONFLICT, "a sequence with other data")


def _corrupt(trial: Trial) -> None:
    sink = trial.sinks.create()
    with trial.wire.stream(RPC, opening(sink, trial.unique), page(0, b"a", crc32=1), page(0, b"a")) as stream:
        opened(stream)
        of_status(answered(stream).refusal).check(Reason.PAGE_CORRUPT, "a page with another CRC-32")
        equal(receipt(stream).first_offset, 0, "the offset of the page, sent again")


def _fenced(trial: Trial) -> None:
    sink = trial.sinks.create()
    with trial.wire.stream(RPC, opening(sink, trial.unique)) as old:
        first = opened(old).writer_epoch
        with trial.wire.stream(RPC, opening(sink, trial.unique), page(0, b"new")) as new:
            that(opened(new).writer_epoch > first, "a new epoch of a writer is not higher than the former one")
            receipt(new)
            old.send(page(0, b"late"))
            with refused_for(Reason.WRITER_FENCED, "a page of an older epoch"):
                answered(old)
    equal(trial.replayed(sink), [(0, b"new")], "the stored records")


def _not_opened(trial: Trial) -> None:
    with trial.wire.stream(RPC, page(0, b"a")) as stream, refused_for(Reason.INVALID_OPEN, "a page before `open`"):
        stream.receive()


CHECKS: Final = (
    Check("publish", "PublishBatch answers with offsets and durability", _batch),
    Check("publish", "text values are stored as UTF-8", _text),
    Check("publish", "a key selects the partition by its CRC-32", _keyed),
    Check("publish", "Peek shows all partitions", _peeked),
    Check("publish", "pages are answered in order", _pages),
    Check("publish", "a page that is sent again is stored once", _resent),
    Check("publish", "a missing page holds back the later ones: SEQUENCE_GAP", _gap),
    Check("publish", "a sequence with other data: SEQUENCE_CONFLICT", _conflict),
    Check("publish", "a damaged page: PAGE_CORRUPT", _corrupt),
    Check("publish", "a newer epoch ends the older one: WRITER_FENCED", _fenced),
    Check("publish", "a stream without `open`: INVALID_OPEN", _not_opened),
)
