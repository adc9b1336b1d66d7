"""`forebay tail`: the newest records of a sink, and with ``--follow`` new ones as they arrive.

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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forebay.client import Gap, PartitionStats, ReplayedRecord

    _Item = ReplayedRecord | Gap | BaseException | None
    """Record, gap or error of a partition; None is its end."""

PARTITIONS_MAX: Final = 64
"""Maximum number of partitions; each needs a stream."""

WAITING_MAX: Final = 1_000
"""Maximum number of records between the readers and the writer."""


def tail(
    sink: SinkName,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Only this partition; default: all.", min=0)
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", help="Number of records before the end of each partition.", min=0)
    ] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new records as they arrive, until Ctrl-C.")
    ] = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: LineOutput = LineForm.TEXT,
) -> None:
    """Show the newest records of a sink, and with -f new ones as they arrive. No position changes."""
    from forebay.client import Gap
    from forebay.client.transport.threads import GuardedThread

    waiting: Queue[_Item] = Queue(WAITING_MAX)
    with connect(endpoint, sink) as client:
        parts = _chosen(client.sinks.stats(sink).partitions, partition)
        for part in parts:
            start = max(part.earliest_offset, part.next_offset - count)
            reading = client.replay(sink, partition=part.partition, start=start, follow=follow, on_gap="yield")
            name = f"forebay-tail-{part.partition}"
            GuardedThread(partial(_read, reading, waiting), name=name, on_fault=waiting.put).start()
        unread = len(parts)
        while unread:
            item = waiting.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                unread -= 1
            elif isinstance(item, Gap):
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
            f"the sink has {len(parts)} partitions and at most {PARTITIONS_MAX} can be read: select one with -p",
            ExitCode.USAGE,
        )
    return parts


def _read(reading: Iterable[ReplayedRecord | Gap], waiting: Queue[_Item]) -> None:
    """Read one partition up to its end, then put None; the writer raises the error that ends it."""
    from forebay.client import ForebayError

    try:
        for item in reading:
            waiting.put(item)
        waiting.put(None)
    except ForebayError as error:
        waiting.put(error)
