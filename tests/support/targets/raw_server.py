"""A server that answers byte by byte as a test wants, over plain sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread

Answering = Callable[[socket.socket, Event], None]


@dataclass(slots=True)
class RawServer:
    """A running server."""

    port: int
    over: Event = field(default_factory=Event)
    requests: int = 0

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.port}/records"


@contextmanager
def answering(answer: Answering, *, reads: bool = True) -> Iterator[RawServer]:
    """Do ``answer`` with each connection once a request has come whole, or at once where it ``reads`` none."""
    listener = socket.create_server(("127.0.0.1", 0))
    running = RawServer(listener.getsockname()[1])

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            if reads:
                _read_request(connection)
            running.requests += 1
            answer(connection, running.over)
            running.over.wait(30)

    def run() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                Thread(target=one, args=(connection,), daemon=True).start()

    thread = Thread(target=run)
    thread.start()
    try:
        yield running
    finally:
        running.over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def dribbling(text: bytes, every_s: float) -> Answering:
    """Answer a byte at a time, until the test is over."""

    def answer(connection: socket.socket, over: Event) -> None:
        for index in range(len(text)):
            if over.wait(every_s):
                return
            connection.sendall(text[index : index + 1])

    return answer


def sending(text: bytes, *, breaks: bool = False) -> Answering:
    """Answer all at once; then break the connection, or leave it open."""

    def answer(connection: socket.socket, over: Event) -> None:
        connection.sendall(text)
        if breaks:
            connection.shutdown(socket.SHUT_RDWR)

    return answer


def _read_request(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    sizes = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while len(body) < int(sizes[0] if sizes else 0):
        body += connection.recv(1 << 16)
