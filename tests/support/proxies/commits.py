"""TCP proxy that holds or cuts a commit of an epoch: before the broker has its request, or after its answer.

It recognizes the path of the method, which a client sends in plain text with its first commit on a connection. Each
commit has a connection of its own here: Spark makes each in a worker that keeps none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Literal, Self

from tests.support.proxies.tcp import Connection, TcpProxy

COMMIT: Final = b"/forebay.v1.EpochService/CommitEpoch"

Moment = Literal["request", "answer"]


class CommitProxy:
    """Proxy of a broker that may stop and restart. Its threads end with their connections."""

    def __init__(self, backend: str) -> None:
        self._lock = threading.Lock()
        """Guards the attributes below; no thread blocks while holding it."""
        self._armed: Moment | None = None
        self._seen: dict[Connection, bytes] = {}
        """End of the bytes of each connection, in which a path may begin."""
        self._answers_held: set[Connection] = set()
        self._held = threading.Event()
        self._go = threading.Event()
        self.commits = 0
        """Requests that were seen."""
        self._proxy = TcpProxy(backend, on_request=self._request, on_answer=self._answer)
        self.endpoint: Final = self._proxy.endpoint

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
        self._proxy.cut()
        self._go.set()

    def close(self) -> None:
        """Break all connections, and accept no more."""
        self._proxy.close()
        self._go.set()

    def _request(self, connection: Connection, chunk: bytes, send: Callable[[bytes], None]) -> None:
        bytes_seen = self._seen.get(connection, b"") + chunk
        if COMMIT in bytes_seen:
            self._seen[connection] = b""
            self._commit_came(connection)
        else:
            self._seen[connection] = chunk[-len(COMMIT) :]
        send(chunk)
        if connection in self._answers_held:
            self._held.set()

    def _answer(self, connection: Connection, chunk: bytes, send: Callable[[bytes], None]) -> None:
        if connection in self._answers_held:
            self._go.wait()
        send(chunk)

    def _commit_came(self, connection: Connection) -> None:
        with self._lock:
            moment, self._armed = self._armed, None
            self.commits += 1
            if moment == "answer":
                self._answers_held.add(connection)
        if moment == "request":
            self._held.set()
            self._go.wait()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
