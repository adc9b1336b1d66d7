"""`forebay tail`: the newest records of a sink, and new ones as they arrive.

One thread per partition reads; the main thread writes. A bounded queue connects them, so that a slow terminal slows the
readers and not the broker.
"""

from __future__ import annotations

from functools import partial
from queue import Queue
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.inspect.record_lines import LineForm, LineOutput, write_gap, write_record
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, SinkName, connect
from forebay.cli.report import CommandFailed
from forebay.errors.reasons import Reason

if TYPE_CHECKING:
    from forebay.client import Client, Gap, PartitionStats, ReplayedRecord

PARTITIONS_MAX: Final = 64
"""Maximum number of followed partitions; each needs a stream."""

WAITING_MAX: Final = 1_000
"""Maximum number of records between the readers and the writer."""


def tail(
    sink: SinkName,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Only this partition; default: all.", min=0)
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", help="Number of records before the end.", min=0)] = 10,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: LineOutput = LineForm.TEXT,
) -> None:
    """Show the newest records of a sink, then new ones as they arrive. No position changes; Ctrl-C stops."""
    from forebay.client import Gap
    from forebay.client.transport.threads import GuardedThread

    waiting: Queue[ReplayedRecord | Gap | BaseException] = Queue(WAITING_MAX)
    with connect(endpoint, sink) as client:
        for part in _chosen(client.sinks.stats(sink).partitions, partition):
            start = max(part.earliest_offset, part.next_offset - count)
            arguments = (client, sink, part.partition, start, waiting)
            GuardedThread(
                partial(_follow, *arguments), name=f"forebay-tail-{part.partition}", on_fault=waiting.put
            ).start()
        while True:
            item = waiting.get()
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, Gap):
                write_gap(item, output)
            else:
                write_record(item, output)


def _chosen(parts: tuple[PartitionStats, ...], partition: int | None) -> tuple[PartitionStats, ...]:
    if partition is not None:
        parts = tuple(part for part in parts if part.partition == partition)
        if not parts:
            raise CommandFailed(f"partition = {partition}: the sink has no such partition", ExitCode.NOT_FOUND)
    if len(parts) > PARTITIONS_MAX:
        raise CommandFailed(
            f"the sink has {len(parts)} partitions and at most {PARTITIONS_MAX} can be followed: select one with -p",
            ExitCode.USAGE,
        )
    return parts


def _follow(
    client: Client,
    sink: str,
    partition: int,
    start: int,
    waiting: Queue[ReplayedRecord | Gap | BaseException],
) -> None:
    """Read one partition without end; the writer raises the error that ends it."""
    from forebay.client import Closed, ForebayError

    try:
        for item in client.replay(sink, partition=partition, start=start, follow=True, on_gap="yield"):
            waiting.put(item)
        waiting.put(Closed(f"partition {partition} of {sink} ended", reason=Reason.CLIENT_CLOSED))
    except ForebayError as error:
        waiting.put(error)
