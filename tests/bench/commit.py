"""The commit of one large epoch: many tasks that each staged a page in every partition, and who waits meanwhile.

Tasks stage over the wire, as the tasks of a Spark job do; the commit is one call. A publisher and a consumer of another
sink work beside it all the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import grpc.aio
import uvloop

from forebay.client import Client, StagedPart, StagedSummary
from forebay.client.publish.pages import encode_columns
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import epoch_service_pb2 as epochs_pb
from forebay.v1 import record_pb2
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from forebay.v1.epoch_service_pb2_grpc import EpochServiceStub
from tests.bench.neighbours import SINK as NEIGHBOURS
from tests.bench.neighbours import beside
from tests.bench.processes import Child, broker
from tests.bench.values import Bar, Row, Sense

SINK: Final = "epochs"
TASKS: Final = 10_000
PARTITIONS: Final = 128
QUICK: Final = 10
"""Divisor of the tasks in a quick run."""
STREAMS: Final = 16
"""Tasks that stage at the same time."""
PATIENCE_S: Final = 600.0
COMMIT_BAR_S: Final = 10.0
WAIT_BAR_S: Final = 0.25
REQUEST_BAR_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """One commit, and what it took."""

    staged_s: float
    seconds: float
    processor_s: float
    """Of the broker, during the commit."""
    publish_s: list[float]
    """Waits of the publisher beside it."""
    deliver_s: list[float]
    """Waits of the consumer beside it."""
    request_bytes: int
    staged_mib: float
    """Peak resident memory of the broker when all was staged."""
    peak_mib: float
    """The same after the commit."""

    @property
    def longest_s(self) -> float:
        """Longest wait of any other caller."""
        return max(*self.publish_s, *self.deliver_s)


class Job:
    """The tasks of one epoch, and its driver."""

    def __init__(self, channel: grpc.aio.Channel, tasks: int, partitions: int) -> None:
        self._buffer: Any = BufferServiceStub(channel)
        self._epochs: Any = EpochServiceStub(channel)
        self._tasks = tasks
        self._partitions = partitions
        self._ticket = 0
        page = encode_columns([bytes(100)])
        self._pages = [
            pb.PublishPage(
                partition=partition,
                encoding=record_pb2.ENCODING_RECORDS,
                record_count=1,
                crc32=page.crc32,
                body=page.body,
            )
            for partition in range(partitions)
        ]

    async def stage(self) -> None:
        """Let every task stage its pages; returns when all are durable."""
        self._ticket = (await self._epochs.TakeTicket(epochs_pb.TakeTicketRequest())).ticket
        waiting = iter(range(self._tasks))

        async def work() -> None:
            for task in waiting:
                await self._stage(task)

        await asyncio.gather(*(work() for _ in range(STREAMS)))

    async def _stage(self, task: int) -> None:
        stage = pb.PublishStage(producer="job", epoch=0, token=f"task-{task}", run="run", ticket=self._ticket)
        opened = asyncio.Event()

        async def requests() -> AsyncIterator[pb.PublishRequest]:
            yield pb.PublishRequest(open=pb.PublishOpen(sink=SINK, stage=stage, answers_together=True))
            await opened.wait()
            for page in self._pages:
                yield pb.PublishRequest(page=page)
            yield pb.PublishRequest(close=pb.PublishClose())

        stored = 0
        async for response in self._buffer.Publish(requests()):
            kind = response.WhichOneof("response")
            if kind == "opened":
                opened.set()
                continue
            answers = response.answers.answers if kind == "answers" else [response.answer]
            stored += sum(answer.HasField("receipt") for answer in answers)
        if stored != self._partitions:
            raise RuntimeError(f"{stored} of {self._partitions} pages of task {task} were stored")

    def request(self) -> epochs_pb.CommitEpochRequest:
        """The commit of all tasks."""
        summary = StagedSummary.of([StagedPart(partition, 1, 1) for partition in range(self._partitions)])
        told = epochs_pb.StagedSummary(pages=summary.pages, records=summary.records, digest=summary.digest)
        tokens = [epochs_pb.StagedToken(token=f"task-{task}", summary=told) for task in range(self._tasks)]
        commit = epochs_pb.EpochCommit(
            sink=SINK,
            producer="job",
            epoch=0,
            run="run",
            ticket=self._ticket,
            tokens=tokens,
            content=epochs_pb.EpochContent(records=self._tasks * self._partitions),
        )
        return epochs_pb.CommitEpochRequest(commits=[commit])

    async def commit(self, request: epochs_pb.CommitEpochRequest) -> epochs_pb.CommitEpochResponse:
        """Commit. Raises ``RuntimeError`` unless all of it became visible."""
        response: epochs_pb.CommitEpochResponse = await self._epochs.CommitEpoch(request, timeout=PATIENCE_S)
        found = sum(part.records for part in response.epochs[0].parts)
        if found != self._tasks * self._partitions:
            raise RuntimeError(f"{found} records were committed")
        return response


async def run(process: Child, endpoint: str, tasks: int, partitions: int) -> Found:
    """Stage, then commit with neighbours."""
    async with (
        grpc.aio.insecure_channel(endpoint) as channel,
        grpc.aio.insecure_channel(endpoint, options=[("grpc.use_local_subchannel_pool", 1)]) as other,
    ):
        job = Job(channel, tasks, partitions)
        begun = time.perf_counter()
        await job.stage()
        staged_s, request = time.perf_counter() - begun, job.request()
        staged_mib = process.memory_peak_mib()
        async with beside(other) as neighbours:
            before, begun = process.cost(), time.perf_counter()
            await job.commit(request)
            seconds, cost = time.perf_counter() - begun, process.cost_since(before)
            again = await job.commit(request)
            await asyncio.sleep(1.0)  # what a commit leaves for later is done beside the neighbours too
        if not again.already_committed:
            raise RuntimeError("the repeated commit was a new one")
    return Found(
        staged_s=staged_s,
        seconds=seconds,
        processor_s=cost.processor_s,
        publish_s=neighbours.publish_s,
        deliver_s=neighbours.deliver_s,
        request_bytes=request.ByteSize(),
        staged_mib=staged_mib,
        peak_mib=process.memory_peak_mib(),
    )


def measure(
    folder: Path, *, rounds: int, quick: bool, rows: list[Row], bars: list[Bar], say: Callable[[str], None],
    tasks: int = TASKS, partitions: int = PARTITIONS,
) -> None:  # fmt: skip
    """Commit an epoch of ``tasks`` tasks, round by round."""
    tasks = tasks // QUICK if quick else tasks
    found: list[Found] = []
    for number in range(rounds):
        say(f"{tasks:,} tasks with a page in each of {partitions} partitions, round {number + 1} of {rounds}")
        with broker(folder / f"commit-{number}", folder / "broker.log") as (process, endpoint):
            with Client(endpoint) as client:
                client.sinks.create(SINK, partitions=partitions)
                client.sinks.create(NEIGHBOURS)
            found.append(uvloop.run(run(process, endpoint, tasks, partitions)))
        last = found[-1]
        say(
            f"staged in {last.staged_s:.1f} s, {last.staged_mib:,.0f} MiB resident; committed in {last.seconds:.2f} s"
            f" with {last.processor_s:.2f} s of a processor; longest waits: publisher"
            f" {max(last.publish_s) * 1e3:.0f} ms, consumer {max(last.deliver_s) * 1e3:.0f} ms;"
            f" request {last.request_bytes:,} bytes; peak {last.peak_mib:,.0f} MiB"
        )
    rows += rows_of(tasks, partitions, found)
    bars += bars_of(tasks, partitions, found)


def rows_of(tasks: int, partitions: int, found: list[Found]) -> list[Row]:
    """The rows of some commits of one size."""
    pages, memory = tasks * partitions, max(one.peak_mib for one in found)
    staged_s, seconds = (median(getattr(one, name) for one in found) for name in ("staged_s", "seconds"))
    rows = [
        Row("staging of an epoch", partitions=partitions, records_per_s=pages / staged_s,
            memory_mib=max(one.staged_mib for one in found), runs=len(found)),
        Row(f"commit of {tasks:,} tasks", partitions=partitions, records_per_s=pages / seconds, p50_ms=seconds * 1e3,
            memory_mib=memory, runs=len(found)),
    ]  # fmt: skip
    for name, waits in (("publisher", "publish_s"), ("consumer", "deliver_s")):
        all_of_them = sorted(wait for one in found for wait in getattr(one, waits))
        p99 = all_of_them[int(len(all_of_them) * 0.99)]
        rows.append(Row(f"{name} beside it", p50_ms=median(all_of_them) * 1e3, p99_ms=p99 * 1e3, runs=len(found)))
    return rows


def bars_of(tasks: int, partitions: int, found: list[Found]) -> list[Bar]:
    """The bars of some commits of one size."""
    name = f"{tasks:,} tasks in {partitions} partitions"
    return [
        Bar(f"commit / 10 s, {name}", median(one.seconds for one in found) / COMMIT_BAR_S, 1.0, Sense.AT_MOST),
        Bar(f"longest wait beside it / 250 ms, {name}", median(one.longest_s for one in found) / WAIT_BAR_S, 1.0,
            Sense.AT_MOST),
        Bar(f"request / 1 MiB, {name}", max(one.request_bytes for one in found) / REQUEST_BAR_BYTES, 1.0,
            Sense.AT_MOST),
    ]  # fmt: skip
