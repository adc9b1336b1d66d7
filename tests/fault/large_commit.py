"""Kills a broker at random moments of commits large enough to write ahead, and checks what is left.

    python -m tests.fault.large_commit --kills 40 [--tasks N] [--partitions N] [--pages N] [--seed N]

An epoch is staged once and committed until it is there: each commit but the last is cut off by kill -9 somewhere
between its request and its answer. After each kill the epoch is there as a whole or not at all, an answer that was
given holds, the same commit again gives the same answer, and no page, name or note of the commit is left over.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import grpc

from forebay.broker.storage.journal import Journal
from forebay.broker.storage.records.epochs.epoch import STAGE_ORDER
from forebay.broker.storage.records.epochs.large_commit import LARGE_COMMIT
from forebay.broker.storage.records.pages.due import DUE
from forebay.broker.storage.records.pages.entry import ENTRY, decode_entry
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.client import Client, StagedPart, StagedSummary
from forebay.client.publish.pages import encode_columns
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import epoch_service_pb2 as epochs_pb
from forebay.v1 import record_pb2
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from forebay.v1.epoch_service_pb2_grpc import EpochServiceStub
from tests.support.calls.eventually import values_of
from tests.support.pages.named_pages import named_pages, stored_pages
from tests.support.processes.broker import BrokerProcess, Launcher, free_port

SINK: Final = "orders"
CALL_S: Final = 120.0
SLICE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Size:
    """An epoch: each task has so many pages of one record in each partition."""

    tasks: int = 48
    partitions: int = 8
    pages: int = 53

    @property
    def records(self) -> int:
        """Records of an epoch."""
        return self.tasks * self.partitions * self.pages


@dataclass(slots=True)
class Report:
    """Results of the kills."""

    kills: int = 0
    nothing: int = 0
    """After so many of them nothing of the commit was there ..."""
    cut: int = 0
    """... though after so many of these it had begun to write."""
    whole: int = 0
    """After so many all of it was there."""
    epochs: int = 0
    """Epochs that were committed."""
    wrong: list[str] = field(default_factory=list)


class Writer:
    """The tasks and the driver of epochs, over raw calls."""

    def __init__(self, endpoint: str, size: Size) -> None:
        self._endpoint = endpoint
        self._size = size
        self._ticket = 0

    def value(self, epoch: int, task: int, partition: int, page: int) -> bytes:
        """The one record of a page."""
        return b"%d.%d.%d.%d" % (epoch, task, partition, page)

    def values(self, epoch: int, partition: int) -> list[bytes]:
        """Records of an epoch in a partition, in order."""
        size = self._size
        return [self.value(epoch, task, partition, page) for task in range(size.tasks) for page in range(size.pages)]

    def stage(self, epoch: int) -> None:
        """Stage an epoch, as a run of its own."""
        with grpc.insecure_channel(self._endpoint, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            self._ticket = EpochServiceStub(channel).TakeTicket(epochs_pb.TakeTicketRequest(), timeout=CALL_S).ticket
            for task in range(self._size.tasks):
                self._stage(channel, epoch, task)

    def _stage(self, channel: grpc.Channel, epoch: int, task: int) -> None:
        opened = threading.Event()

        def requests() -> Iterator[pb.PublishRequest]:
            stage = pb.PublishStage(
                producer="job", epoch=epoch, token=f"task-{task}", run=f"run-{epoch}", ticket=self._ticket
            )
            yield pb.PublishRequest(open=pb.PublishOpen(sink=SINK, stage=stage, answers_together=True))
            opened.wait(CALL_S)
            for partition in range(self._size.partitions):
                for number in range(self._size.pages):
                    columns = encode_columns([self.value(epoch, task, partition, number)])
                    page = pb.PublishPage(
                        partition=partition,
                        sequence=number,
                        encoding=record_pb2.ENCODING_RECORDS,
                        record_count=1,
                        crc32=columns.crc32,
                        body=columns.body,
                    )
                    yield pb.PublishRequest(page=page)
            yield pb.PublishRequest(close=pb.PublishClose())

        stored = 0
        for response in BufferServiceStub(channel).Publish(requests(), timeout=CALL_S):
            opened.set()
            answers = response.answers.answers if response.HasField("answers") else [response.answer]
            stored += sum(answer.HasField("receipt") for answer in answers)
        assert stored == self._size.partitions * self._size.pages

    def commit(self, epoch: int) -> epochs_pb.CommitEpochResponse:
        """Commit an epoch. Raises ``grpc.RpcError``."""
        size = self._size
        summary = StagedSummary.of(
            [StagedPart(partition, size.pages, size.pages) for partition in range(size.partitions)]
        )
        summarised = epochs_pb.StagedSummary(pages=summary.pages, records=summary.records, digest=summary.digest)
        commit = epochs_pb.EpochCommit(
            sink=SINK,
            producer="job",
            epoch=epoch,
            run=f"run-{epoch}",
            ticket=self._ticket,
            tokens=[epochs_pb.StagedToken(token=f"task-{task}", summary=summarised) for task in range(size.tasks)],
            content=epochs_pb.EpochContent(records=size.records),
        )
        with grpc.insecure_channel(self._endpoint, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            request = epochs_pb.CommitEpochRequest(commits=[commit])
            answer: epochs_pb.CommitEpochResponse = EpochServiceStub(channel).CommitEpoch(request, timeout=CALL_S)
            return answer


class Campaign:
    """Stages epochs and kills the broker in their commits."""

    def __init__(self, launcher: Launcher, directory: Path, size: Size, seed: int) -> None:
        self.report = Report()
        self._launcher = launcher
        self._store = directory / "store"
        self._listen = f"127.0.0.1:{free_port()}"
        self._size = size
        self._chance = random.Random(seed)
        self._writer = Writer(self._listen, size)
        self._took_s = 0.0
        """Duration of the last commit that was not interrupted."""

    def run(self, kills: int, *, cut: int = 0) -> Report:
        """Kill so many times, and on, up to four times as often, until so many commits were cut off as they wrote."""
        with self._launcher.start(self._store, self._listen) as broker:
            broker.ready()
            with Client(self._listen) as client:
                client.sinks.create(SINK, partitions=self._size.partitions)
            self._writer.stage(0)
            self._commit_in_peace(broker)
        staged = False
        while self.report.kills < kills or (self.report.cut < cut and self.report.kills < 4 * kills):
            if not staged:
                self._stage()
            staged = not self._kill()
        if staged:
            with self._launcher.start(self._store, self._listen) as broker:
                broker.ready()
                self._commit_in_peace(broker)
        return self.report

    def _stage(self) -> None:
        with self._launcher.start(self._store, self._listen) as broker:
            broker.ready()
            self._writer.stage(self.report.epochs)
            self._expect(broker.terminate() == 0, "the broker did not stop")

    def _commit_in_peace(self, broker: BrokerProcess) -> None:
        """Commit what is staged and stop: others are killed within the time that it takes."""
        begun = time.perf_counter()
        self._writer.commit(self.report.epochs)
        self._took_s = time.perf_counter() - begun
        self.report.epochs += 1
        self._expect(broker.terminate() == 0, "the broker did not stop")
        self._look_inside()

    def _kill(self) -> bool:
        """Kill the broker during one commit and check what is left; True when the epoch is there."""
        epoch, answer = self.report.epochs, None
        with self._launcher.start(self._store, self._listen) as broker, ThreadPoolExecutor(1) as worker:
            broker.ready()
            asked: Future[epochs_pb.CommitEpochResponse] = worker.submit(self._writer.commit, epoch)
            wait([asked], timeout=self._chance.uniform(0.0, 1.2 * self._took_s))
            broker.kill()
            if isinstance(failure := asked.exception(), grpc.RpcError):
                assert failure.code() is grpc.StatusCode.UNAVAILABLE
            else:
                answer = asked.result()
        begun = self._left_by_the_kill()
        with self._launcher.start(self._store, self._listen) as broker:
            broker.ready()
            there = self._look(epoch, answer)
            self._expect(broker.terminate() == 0, "the broker did not stop")
        self.report.kills += 1
        self.report.nothing += not there
        self.report.cut += begun and not there
        self.report.whole += there
        self.report.epochs += there
        self._look_inside()
        return there

    def _left_by_the_kill(self) -> bool:
        """Return True if a commit had begun to write ahead and was not complete."""
        store = RocksStore(self._store)
        try:
            return bool(store.scan(Family.META, *LARGE_COMMIT.under(), SLICE))
        finally:
            store.close()

    def _look(self, epoch: int, answer: epochs_pb.CommitEpochResponse | None) -> bool:
        """Compare what the broker says with what may be; True when the epoch is there."""
        size, per_partition = self._size, self._size.records // self._size.partitions
        with Client(self._listen) as client:
            ends = {one.next_offset for one in client.sinks.stats(SINK).partitions}
            [job] = client.epochs.list(SINK)
        there = job.last_epoch == epoch
        self._expect(ends == {(epoch + there) * per_partition}, f"partitions end at {ends} in epoch {epoch}")
        staged = (job.staged_tokens, job.staged_records)
        self._expect(staged == ((0, 0) if there else (size.tasks, size.records)), f"{staged} is staged, {there=}")
        self._expect(there or answer is None, f"epoch {epoch} was answered and is not there")
        if there:
            again = self._writer.commit(epoch)
            self._expect(again.already_committed, f"epoch {epoch} was committed twice")
            self._expect(answer is None or list(answer.epochs) == list(again.epochs), "the answer is another one")
            [found] = again.epochs
            self._expect(sum(part.records for part in found.parts) == size.records, "the answer lacks records")
        return there

    def _look_inside(self) -> None:
        """Compare the files with what was committed: a broker that stopped has left nothing to do."""
        store = RocksStore(self._store)
        try:
            names, stored = Counter(named_pages(store)), set(stored_pages(store))
            self._expect(set(names) == stored, f"{len(stored)} pages are stored, {len(names)} have a name")
            self._expect(set(names.values()) == {1}, "a page has two names")
            self._expect(not store.scan(Family.META, *LARGE_COMMIT.under(), SLICE), "a note is left")
            self._expect(not store.scan(Family.META, *DUE.under(), SLICE), "a page is to be reclaimed")
            of_epochs = len(store.scan(Family.META, *STAGE_ORDER.under(), 1 << 20))
            expected = self.report.epochs * self._size.partitions
            self._expect(of_epochs == expected, f"{of_epochs} values beside epochs, expected {expected}")
            for partition in range(self._size.partitions):
                self._look_at_values(Journal(store, b""), partition)
        finally:
            store.close()

    def _look_at_values(self, journal: Journal, partition: int) -> None:
        """The last epoch's index entries: as many as its records, without a hole, and nothing after them."""
        per_partition = self._size.records // self._size.partitions
        epoch = self.report.epochs - 1
        found = journal.scan_all(
            Family.INDEX, *ENTRY.between(1, partition, first=epoch * per_partition, end=(1 << 64) - 1)
        )
        entries = [decode_entry(value, ENTRY.parts(key)[2]) for key, value in found]
        bases = [entry.base for entry in entries]
        self._expect(
            bases == list(range(epoch * per_partition, (epoch + 1) * per_partition)),
            f"{len(bases)} entries of the last epoch in partition {partition}",
        )

    def _expect(self, held: bool, problem: str) -> None:
        if not held:
            self.report.wrong.append(f"after kill {self.report.kills}: {problem}")

    def read_all(self) -> None:
        """Read every record, in the order of its partition."""
        with self._launcher.start(self._store, self._listen) as broker:
            broker.ready()
            with Client(self._listen) as client:
                for partition in range(self._size.partitions):
                    found = values_of(client, SINK, partition)
                    wanted = [
                        value for epoch in range(self.report.epochs) for value in self._writer.values(epoch, partition)
                    ]
                    self._expect(found == wanted, f"partition {partition} has other records, or another order")
            assert broker.terminate() == 0


def main() -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.large_commit", description=__doc__)
    size = Size()
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--tasks", type=int, default=size.tasks)
    parser.add_argument("--partitions", type=int, default=size.partitions)
    parser.add_argument("--pages", type=int, default=size.pages)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="forebay-commit-") as name, Launcher() as launcher:
        campaign = Campaign(launcher, Path(name), Size(asked.tasks, asked.partitions, asked.pages), asked.seed)
        report = campaign.run(asked.kills)
        campaign.read_all()
    print(json.dumps({"seed": asked.seed, **asdict(report)}), flush=True)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
