"""A query of one micro-batch after the other into two sinks, as a driver and its tasks write them, over raw calls."""

from __future__ import annotations

import random
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import grpc

from forebay.client import BrokerUnavailable, DeadlineExceeded, ForebayError
from forebay.client.publish.pages import encode_columns
from forebay.client.transport.status import from_call, from_status
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import epoch_service_pb2 as epochs_pb
from forebay.v1 import record_pb2
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from forebay.v1.epoch_service_pb2_grpc import EpochServiceStub

CALL_S: Final = 20.0
OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 500))
"""Of a channel: by default it waits ever longer between its attempts to reach a broker that restarts."""
SINKS: Final = ("orders", "others")
PARTITIONS: Final = 2
PAGES: Final = 3
"""That a task writes into each partition."""
RECORDS: Final = 4
"""Of a page."""

_Response = TypeVar("_Response")


def values_of_page(epoch: int, task: int, partition: int, page: int) -> list[bytes]:
    """Rows of a task, the same in each attempt."""
    return [b"%d.%d.%d.%d.%d" % (epoch, task, partition, page, record) for record in range(RECORDS)]


def values_of_epoch(epoch: int, partition: int) -> list[bytes]:
    """Records of an epoch in a partition, in the order of its tasks."""
    return [v for task in range(2) for page in range(PAGES) for v in values_of_page(epoch, task, partition, page)]


class EpochWriter:
    """Writes epochs until it is stopped. It waits for a broker that is unreachable."""

    def __init__(self, endpoint: str, seed: int, *, working: threading.Event | None = None) -> None:
        """It writes while ``working`` is set; without one, always."""
        self.done = 0
        """Epochs that were answered as committed."""
        self.begun = 0
        """Epochs that were begun."""
        self._chance = random.Random(seed)
        self._endpoint = endpoint
        self._stopping = threading.Event()
        self._working = working
        self._run, self._ticket = "run-0", 0

    def stop(self) -> None:
        """End after the epoch that is being written."""
        self._stopping.set()

    def work(self) -> None:
        """Write one epoch after the other."""
        while not self._stopping.is_set():
            if self._working is not None:
                self._working.wait()
            self.begun = self.done + 1
            self._write(self.done)
            self.done += 1

    def _write(self, epoch: int) -> None:
        tokens = self._tokens()
        restarts = self._ticket == 0
        while True:
            with grpc.insecure_channel(self._endpoint, options=OPTIONS) as channel:
                try:
                    grpc.channel_ready_future(channel).result(CALL_S)
                    if restarts:
                        self._begin_run(channel)
                    self._stage_all(channel, epoch, tokens)
                    self._commit(channel, epoch, tokens)
                except (BrokerUnavailable, DeadlineExceeded, grpc.FutureTimeoutError):
                    restarts = self._chance.random() < 0.5
                    if restarts:  # the query with new attempts, else the same ones continue
                        tokens = self._tokens()
                else:
                    return

    def repeat_with(self, more: int) -> str:
        """Repeat the last epoch as a new run that counts so many records more; return the refusal, empty for none."""
        with grpc.insecure_channel(self._endpoint, options=OPTIONS) as channel:
            self._begin_run(channel)
            commit = epochs_pb.EpochCommit(
                sink=SINKS[0],
                producer="query",
                write_name=SINKS[0],
                epoch=self.done - 1,
                run=self._run,
                ticket=self._ticket,
                tokens=[epochs_pb.StagedToken(token="counted")],
                content=epochs_pb.EpochContent(records=2 * PARTITIONS * PAGES * RECORDS + more),
            )
            try:
                found = _called(EpochServiceStub(channel).CommitEpoch, epochs_pb.CommitEpochRequest(commits=[commit]))
            except ForebayError as refused:
                return refused.reason
        assert found.already_committed
        return ""

    def _tokens(self) -> list[str]:
        return [f"task-{task}-{self._chance.getrandbits(64):x}" for task in range(2)]

    def _begin_run(self, channel: grpc.Channel) -> None:
        ticket = _called(EpochServiceStub(channel).TakeTicket, epochs_pb.TakeTicketRequest()).ticket
        assert ticket > self._ticket, "a ticket was given twice"
        self._run, self._ticket = f"run-{ticket}", ticket

    def _stage_all(self, channel: grpc.Channel, epoch: int, tokens: Sequence[str]) -> None:
        """Stage what every task has; it may be committed already, when the answer was lost."""
        try:
            if self._chance.random() < 0.3:  # an attempt that fails
                self._stage(channel, SINKS[0], epoch, f"failed-{self._chance.getrandbits(64):x}", 0, pages=1)
            for sink in SINKS:
                for task, token in enumerate(tokens):
                    self._stage(channel, sink, epoch, token, task, pages=PAGES)
        except ForebayError as failure:
            if failure.reason != "ALREADY_COMMITTED":
                raise

    def _stage(self, channel: grpc.Channel, sink: str, epoch: int, token: str, task: int, *, pages: int) -> None:
        stage = pb.PublishStage(
            producer="query", write_name=sink, epoch=epoch, token=token, run=self._run, ticket=self._ticket
        )
        opened = threading.Event()
        next_sequences: dict[int, int] = {}

        def requests() -> Iterator[pb.PublishRequest]:
            yield pb.PublishRequest(open=pb.PublishOpen(sink=sink, stage=stage))
            if opened.wait(CALL_S):
                for partition in range(PARTITIONS):
                    for page in range(next_sequences.get(partition, 0), pages):
                        yield _page(partition, page, values_of_page(epoch, task, partition, page))
                yield pb.PublishRequest(close=pb.PublishClose())

        call = BufferServiceStub(channel).Publish(requests(), timeout=CALL_S)
        try:
            for response in call:
                if response.WhichOneof("response") == "opened":
                    next_sequences.update(response.opened.next_sequences)
                    opened.set()
                elif not response.answer.HasField("receipt"):
                    raise from_status(response.answer.refusal)
        except grpc.RpcError as failure:
            raise from_call(failure) from failure
        finally:
            opened.set()

    def _commit(self, channel: grpc.Channel, epoch: int, tokens: Sequence[str]) -> None:
        part = {"pages": PAGES, "records": PAGES * RECORDS}
        parts = [epochs_pb.StagedPart(partition=partition, **part) for partition in range(PARTITIONS)]
        named = [epochs_pb.StagedToken(token=token, parts=parts) for token in tokens]
        commits = [
            epochs_pb.EpochCommit(
                sink=sink,
                producer="query",
                write_name=sink,
                epoch=epoch,
                run=self._run,
                ticket=self._ticket,
                tokens=named,
                content=epochs_pb.EpochContent(records=len(tokens) * PARTITIONS * PAGES * RECORDS),
            )
            for sink in SINKS
        ]
        found = _called(EpochServiceStub(channel).CommitEpoch, epochs_pb.CommitEpochRequest(commits=commits))
        assert [each.epoch for each in found.epochs] == [epoch] * len(SINKS)


def _called(method: Callable[..., _Response], request: object) -> _Response:
    try:
        return method(request, timeout=CALL_S)
    except grpc.RpcError as failure:
        raise from_call(failure) from failure


def _page(partition: int, sequence: int, values: list[bytes]) -> pb.PublishRequest:
    page = encode_columns(values)
    return pb.PublishRequest(
        page=pb.PublishPage(
            partition=partition,
            sequence=sequence,
            encoding=record_pb2.ENCODING_RECORDS,
            record_count=len(values),
            crc32=zlib.crc32(page.body),
            body=page.body,
        )
    )
