"""A wire to a broker that can be held, or cut, at a commit: before the broker has the request, or behind its answer.

It passes bytes and knows nothing of gRPC but the path of the method, which a client sends in plain text with its first
commit on a connection. A commit has a connection of its own here: Spark makes each in a worker that keeps none.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Literal, Self

COMMIT: Final = b"/forebay.v1.EpochService/CommitEpoch"
CHUNK: Final = 1 << 16

Moment = Literal["request", "answer"]


class CommitProxy:
    """Stands in front of a broker, which may come and go. Its threads end with their connections."""

    def __init__(self, backend: str) -> None:
        host, _, port = backend.rpartition(":")
        self._backend = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint: Final = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        """Guards what follows; nobody waits under it."""
        self._armed: Moment | None = None
        self._open: set[socket.socket] = set()
        self._held = threading.Event()
        self._go = threading.Event()
        self.commits = 0
        """Requests that were seen."""
        threading.Thread(target=self._accept, name="proxy-accept", daemon=True).start()

    def hold(self, moment: Moment) -> None:
        """Hold the next commit: its request back, or all answers from when its request has passed."""
        with self._lock:
            self._armed = moment
            self._held.clear()
            self._go.clear()

    def wait_held(self, timeout_s: float) -> None:
        """Return when a commit is held."""
        if not self._held.wait(timeout_s):
            raise AssertionError(f"no commit came within {timeout_s:g} s")

    def cut(self) -> None:
        """Break all connections, whatever they hold; new ones are let through."""
        with self._lock:
            broken, self._open = self._open, set()
        for one in broken:
            _break(one)
        self._go.set()

    def close(self) -> None:
        """Break all connections, and take no more."""
        _break(self._listener)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._backend)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            answers_held = threading.Event()
            for target in (self._pass_requests, self._pass_answers):
                threading.Thread(target=target, args=(client, server, answers_held), name="proxy", daemon=True).start()

    def _pass_requests(self, client: socket.socket, server: socket.socket, answers_held: threading.Event) -> None:
        before = b""
        with suppress(OSError):
            while data := client.recv(CHUNK):
                if COMMIT in before + data:
                    before = b""
                    self._commit_came(answers_held)
                else:
                    before = data[-len(COMMIT) :]
                server.sendall(data)
                if answers_held.is_set():
                    self._held.set()
        self._end(client, server)

    def _pass_answers(self, client: socket.socket, server: socket.socket, answers_held: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(CHUNK):
                if answers_held.is_set():
                    self._go.wait()
                client.sendall(data)
        self._end(client, server)

    def _commit_came(self, answers_held: threading.Event) -> None:
        with self._lock:
            moment, self._armed = self._armed, None
            self.commits += 1
        if moment == "answer":
            answers_held.set()
        elif moment == "request":
            self._held.set()
            self._go.wait()

    def _end(self, client: socket.socket, server: socket.socket) -> None:
        with self._lock:
            self._open -= {client, server}
        _break(client)
        _break(server)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def _break(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
