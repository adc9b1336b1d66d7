"""A gRPC server whose answers a test writes: it fakes the wire, not the client's classes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from forebay.client import Client, ClientSettings, RetryPolicy
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from forebay.v1.admin_service_pb2_grpc import add_AdminServiceServicer_to_server
from forebay.v1.buffer_service_pb2_grpc import add_BufferServiceServicer_to_server
from forebay.v1.epoch_service_pb2_grpc import add_EpochServiceServicer_to_server
from forebay.v1.sink_service_pb2_grpc import add_SinkServiceServicer_to_server

Handler = Callable[[Any, grpc.ServicerContext], Any]
QUICK = ClientSettings(
    call_timeout_s=5,
    retry=RetryPolicy(tries_max=4, delay_min_s=0.001, delay_max_s=0.01, budget_s=5),
    reconnect=RetryPolicy(tries_max=1000, delay_min_s=0.001, delay_max_s=0.02, budget_s=60),
    reattach_timeout_s=5,
)


def status(
    code: grpc.StatusCode, reason: str, text: str = "", retry_after_s: float | None = None, **facts: object
) -> status_pb2.Status:
    """Return a refusal as the broker makes them."""
    found = status_pb2.Status(code=code.value[0], message=text or reason)
    info = error_details_pb2.ErrorInfo(reason=reason, domain="forebay.v1")
    info.metadata.update({name: str(value) for name, value in facts.items()})
    found.details.append(_packed(info))
    if retry_after_s is not None:
        delay = Duration(nanos=int(retry_after_s * 1e9) % 10**9, seconds=int(retry_after_s))
        found.details.append(_packed(error_details_pb2.RetryInfo(retry_delay=delay)))
    return found


def _packed(message: Any) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed


def abort(context: grpc.ServicerContext, found: status_pb2.Status) -> None:
    """End a call with a refusal."""
    code = next(code for code in grpc.StatusCode if code.value[0] == found.code)
    context.set_trailing_metadata((("grpc-status-details-bin", found.SerializeToString()),))
    context.abort(code, found.message)


class WireFake:
    """Serves what the test put into ``handlers``, by the name of the rpc."""

    def __init__(self, **handlers: Handler) -> None:
        self.handlers = handlers
        self.address = "127.0.0.1:0"
        self._server: grpc.Server | None = None

    def __getattr__(self, name: str) -> Handler:
        if name.startswith("_") or not name[0].isupper():
            raise AttributeError(name)

        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            if name not in self.handlers:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the test has no handler for {name}")
            return self.handlers[name](request, context)

        return handle

    def start(self) -> None:
        """Listen; on the same port again after a stop."""
        options = [
            ("grpc.max_receive_message_length", 32 << 20),
            ("grpc.max_send_message_length", 32 << 20),
            ("grpc.so_reuseport", 0),
        ]
        server = grpc.server(ThreadPoolExecutor(16), options=options)
        add_BufferServiceServicer_to_server(self, server)
        add_SinkServiceServicer_to_server(self, server)
        add_AdminServiceServicer_to_server(self, server)
        add_EpochServiceServicer_to_server(self, server)
        port = server.add_insecure_port(self.address)
        self.address = f"127.0.0.1:{port}"
        server.start()
        self._server = server

    def stop(self) -> None:
        """End all calls at once and stop listening."""
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None

    def client(self, settings: ClientSettings = QUICK) -> Client:
        """Return a client of it."""
        return Client(self.address, settings=settings)

    def __enter__(self) -> Self:
        """Listen."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()


class Silent:
    """Handler of a stream of responses that leaves its first streams unanswered, as gRPC can lose them."""

    def __init__(self, answer: Any, *, streams: int, headers: bool = False) -> None:
        """``headers`` sends those of an unanswered stream at once, and its answer after a second."""
        self.requests: list[Any] = []
        self._answer = answer
        self._streams = streams
        self._headers = headers

    def __call__(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self.requests.append(request)
        ended = threading.Event()
        context.add_callback(ended.set)
        if self._headers:
            context.send_initial_metadata(())
        if len(self.requests) <= self._streams:
            ended.wait(1 if self._headers else 60)
        yield self._answer


class Log:
    """Partitions as lists of stored bodies, with the window of each (writer epoch, partition): the broker's rules."""

    def __init__(self, partitions: int = 1) -> None:
        self.partitions = partitions
        self.lock = threading.Lock()
        self.epoch = 0
        self.pages: list[list[pb.PublishPage]] = [[] for _ in range(partitions)]
        self.windows: dict[tuple[int, int], dict[int, record_pb2.Receipt]] = {}
        self.expected: dict[tuple[int, int], int] = {}
        self.opens: list[pb.PublishOpen] = []
        self.closes = 0
        self.is_staging = False
        self.refuse: Callable[[pb.PublishPage], status_pb2.Status | None] = lambda page: None

    def opened(self, request: pb.PublishOpen) -> pb.PublishOpened:
        """Answer an `open`."""
        with self.lock:
            self.opens.append(request)
            self.is_staging = request.HasField("stage")
            if request.HasField("writer_epoch"):
                epoch = request.writer_epoch
            else:
                self.epoch += 1
                epoch = self.epoch
            return pb.PublishOpened(
                writer_epoch=epoch,
                incarnation="i",
                partitions=self.partitions,
                next_sequences={p: n for (e, p), n in self.expected.items() if e == epoch},
                page_bytes_max=1 << 20,
                record_bytes_max=8 << 20,
                unanswered_max=256,
            )

    def answered(self, epoch: int, page: pb.PublishPage) -> pb.PublishAnswer:
        """Answer a page."""
        with self.lock:
            answer = pb.PublishAnswer(partition=page.partition, sequence=page.sequence)
            lane = (epoch, page.partition)
            window = self.windows.setdefault(lane, {})
            expected = self.expected.setdefault(lane, page.sequence)
            if page.sequence in window:
                answer.receipt.CopyFrom(window[page.sequence])
                answer.receipt.duplicate = True
                return answer
            refusal = self.refuse(page) if page.sequence == expected else None
            if page.sequence != expected:
                refusal = status(grpc.StatusCode.ABORTED, "SEQUENCE_GAP", expected=expected)
            if refusal is not None:
                answer.refusal.CopyFrom(refusal)
                return answer
            log = self.pages[page.partition]
            first = sum(one.record_count for one in log)
            log.append(page)
            receipt = record_pb2.Receipt(
                sink="s", partition=page.partition, durability=record_pb2.DURABILITY_DISK, staged=self.is_staging
            )
            if not self.is_staging:
                receipt.first_offset, receipt.last_offset = first, first + page.record_count - 1
            window[page.sequence] = receipt
            self.expected[lane] = page.sequence + 1
            answer.receipt.CopyFrom(receipt)
            return answer

    def publish(
        self, requests: Iterator[pb.PublishRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.PublishResponse]:
        """Serve `Publish`."""
        opened = self.opened(next(requests).open)
        yield pb.PublishResponse(opened=opened)
        for request in requests:
            if request.HasField("close"):
                self.closes += 1
                return
            yield pb.PublishResponse(answer=self.answered(opened.writer_epoch, request.page))

    def values(self, partition: int = 0) -> list[bytes]:
        """Return the stored values of a partition, in order."""
        found: list[bytes] = []
        for page in self.pages[partition]:
            for run in record_pb2.RecordPage.FromString(page.body).runs:
                position = 0
                for length in run.value_lengths:
                    found.append(run.values[position : position + length])
                    position += length
        return found
