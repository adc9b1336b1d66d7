"""Context of a check: the calls of the broker, sinks of its own, and frequent requests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from forebay.contract.sinks import Sinks
from forebay.contract.violation import Violation, exactly
from forebay.contract.wire import CALL_S, Wire
from forebay.v1 import record_pb2


@dataclass(frozen=True, slots=True)
class Trial:
    """One execution of one check."""

    wire: Wire
    sinks: Sinks
    unique: str
    """Text of 1 to 32 characters `[a-z0-9-]` that no other run has, for ids and names."""

    def publish(self, sink: str, *values: bytes, partition: int = 0) -> list[Any]:
        """Append records with these values to a partition; return the receipts."""
        records = [record_pb2.Record(value=value) for value in values]
        answer = self.wire.ask("BufferService.PublishBatch", sink=sink, records=records, partition=partition)
        return list(answer.receipts)

    def pull(self, sink: str, count: int, *, consumer: str = "contract", wait_s: int = 5) -> list[Any]:
        """Return the records of a pull that waits for the first. Raises `Violation` for another count."""
        answer = self.wire.ask("BufferService.Pull", sink=sink, consumer_id=consumer, wait={"seconds": wait_s})
        return exactly(count, answer.records, "the number of pulled records")

    def ack(self, sink: str, delivered: Any) -> list[int]:
        """Settle a pulled record; return the outcomes."""
        answer = self.wire.ask("BufferService.Ack", sink=sink, acks=[_answered(delivered)])
        return [result.outcome for result in answer.results]

    def nack(self, sink: str, delivered: Any, **action: Any) -> list[int]:
        """Reject a pulled record; return the outcomes."""
        answer = self.wire.ask("BufferService.Nack", sink=sink, nacks=[{**_answered(delivered), **action}])
        return [result.outcome for result in answer.results]

    def stats(self, sink: str) -> Any:
        """Return the stats of a sink."""
        return self.wire.ask("SinkService.GetSinkStats", name=sink).stats

    def account(self, sink: str, subscription: str = "default", partition: int = 0) -> Any:
        """Return the account of a subscription on a partition. Raises `Violation` if the stats have none."""
        for one in self.stats(sink).subscriptions:
            for account in one.partitions:
                if (one.name, account.partition) == (subscription, partition):
                    return account
        raise Violation(f"the stats have no account of subscription {subscription!r} on partition {partition}")

    def wait_for(self, sink: str, holds: Callable[[Any], bool], otherwise: str) -> None:
        """Return when a condition of the stats holds. Raises `Violation` with ``otherwise`` in 5 s."""
        ends_at = self.wire.clock() + CALL_S / 2
        interval = {"nanos": 100_000_000}
        with closing(self.wire.responses("SinkService.WatchSinkStats", name=sink, interval=interval)) as responses:
            for response in responses:
                if holds(response.stats):
                    return
                if self.wire.clock() >= ends_at:
                    break
        raise Violation(otherwise)

    def replayed(self, sink: str, partition: int = 0, **options: Any) -> list[tuple[int, bytes]]:
        """Return offsets and values of a replay to the end."""
        found: list[tuple[int, bytes]] = []
        for response in self.wire.responses("BufferService.Replay", sink=sink, partition=partition, **options):
            for page in response.pages.pages:
                found += enumerate(values_of(page.body), page.base_offset)
        return found


def values_of(body: bytes) -> list[bytes]:
    """Return the values of the body of a page with ``ENCODING_RECORDS``. Raises `Violation`."""
    found = []
    try:
        page = record_pb2.RecordPage.FromString(body)
    except DecodeError as error:
        raise Violation("the body of a page is no RecordPage") from error
    for run in page.runs:
        begin = 0
        for length in run.value_lengths:
            found.append(run.values[begin : begin + length])
            begin += length
    return found


def _answered(delivered: Any) -> dict[str, Any]:
    return {
        "partition": delivered.partition,
        "owner_epoch": delivered.owner_epoch,
        "revision": delivered.revision,
        "ranges": [{"first_offset": delivered.offset, "last_offset": delivered.offset}],
    }
