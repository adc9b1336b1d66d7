"""A bare gRPC stream of the same pages, answered at once and stored nowhere: what the transport alone allows.

The server, a process of its own (``python -m tests.bench.echo``), runs on ``grpc.aio`` and the same loop as the broker.
The client frames its pages from records exactly as a publisher does, and keeps as many on the way. Each page is
answered by itself, at once, where a broker answers those together that became durable together. The server has the
defaults of gRPC and of the C library, as what people write has; with ``--tuned`` it has the broker's settings, and
says how much of a difference these make.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import uvloop

from forebay.broker.server import TRANSPORT
from forebay.client.publish.pages import encode_columns, frame_publish_page
from forebay.process import tune
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from tests.bench.processes import Child, child
from tests.bench.values import Load, Sample

SERVICE: Final = "forebay.bench.Echo"
MESSAGE_BYTES_MAX: Final = 32 << 20
WINDOW_PAGES: Final = 96
OPTIONS: Final = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
]


def _as_it_is(message: bytes) -> bytes:
    return message


def stream(endpoint: str, load: Load) -> Sample:
    """Send a load and wait for the last answer."""
    window = threading.Semaphore(WINDOW_PAGES)

    def requests() -> Iterator[bytes]:
        for number, (partition, values) in enumerate(load):
            window.acquire()
            yield frame_publish_page(partition, number, encode_columns(values), "")

    with grpc.insecure_channel(endpoint, options=OPTIONS) as channel:
        grpc.channel_ready_future(channel).result(timeout=10)
        call = channel.stream_stream(f"/{SERVICE}/Stream", _as_it_is, pb.PublishResponse.FromString)
        begun = time.perf_counter()
        answers = 0
        for response in call(requests()):
            answers += response.HasField("answer")
            window.release()
        seconds = time.perf_counter() - begun
    if answers != load.pages:
        raise RuntimeError(f"{answers} answers came to {load.pages} pages")
    return Sample(load.records, load.payload_bytes, seconds)


def unary(endpoint: str, message: bytes, count: int) -> list[float]:
    """Seconds of each call that sends a message and gets it back."""
    taken = []
    with grpc.insecure_channel(endpoint, options=OPTIONS) as channel:
        call = channel.unary_unary(f"/{SERVICE}/Unary", _as_it_is, _as_it_is)
        call(message, wait_for_ready=True, timeout=10)
        for _ in range(count):
            begun = time.perf_counter()
            call(message)
            taken.append(time.perf_counter() - begun)
    return taken


class Echo:
    """The server, as long as it is open."""

    def __init__(self, log: Path, *, tuned: bool = False) -> None:
        self._context = child("tests.bench.echo", *(["--tuned"] if tuned else []), log=log)
        self.endpoint = ""

    def __enter__(self) -> Echo:
        process: Child = self._context.__enter__()
        self.endpoint = str(process.report()["endpoint"])
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)


async def _stream(request: object, context: Any) -> None:
    while (message := await context.read()) is not grpc.aio.EOF:
        page = pb.PublishRequest.FromString(message).page
        receipt = record_pb2.Receipt(partition=page.partition, first_offset=0, last_offset=page.record_count - 1)
        answer = pb.PublishAnswer(partition=page.partition, sequence=page.sequence, receipt=receipt)
        await context.write(pb.PublishResponse(answer=answer).SerializeToString())


async def _unary(request: bytes, context: Any) -> bytes:
    return request


async def _download(request: bytes, context: Any) -> None:
    """Send the bytes of a file so many times, a message each."""
    wanted = json.loads(request)
    message = Path(wanted["path"]).read_bytes()
    for _ in range(wanted["times"]):
        await context.write(message)


async def _serve(*, tuned: bool) -> None:
    if tuned:
        tune()
    server = grpc.aio.server(options=[*OPTIONS, *(TRANSPORT if tuned else ()), ("grpc.so_reuseport", 0)])
    handlers: dict[str, Any] = {
        "Stream": grpc.stream_stream_rpc_method_handler(_stream),
        "Unary": grpc.unary_unary_rpc_method_handler(_unary),
        "Download": grpc.unary_stream_rpc_method_handler(_download),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    print(json.dumps({"endpoint": f"127.0.0.1:{port}"}), flush=True)
    await stopping.wait()
    await server.stop(None)


if __name__ == "__main__":
    uvloop.run(_serve(tuned="--tuned" in sys.argv))
