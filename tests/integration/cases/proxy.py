"""A connection between a client and a broker that a test can make deaf or cut."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Final, Self

CHUNK_BYTES: Final = 1 << 16


class Proxy:
    """Passes bytes between clients and one endpoint. Usable from any thread."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint: Final = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        """Protects the two below."""
        self._sockets: list[socket.socket] = []
        self._deaf = False
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(self._target)
            with self._lock:
                self._sockets += [client, broker]
            for source, target, answers in ((client, broker, False), (broker, client, True)):
                threading.Thread(target=self._pass, args=(source, target, answers), name="proxy", daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        try:
            while chunk := source.recv(CHUNK_BYTES):
                if not (answers and self._deaf):
                    target.sendall(chunk)
        except OSError:
            pass  # it was cut
        source.close()
        target.close()

    def lose_answers(self) -> None:
        """From now on nothing that the broker says arrives."""
        self._deaf = True

    def cut(self) -> None:
        """Break every connection; new ones work."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
            self._deaf = False
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # its other end was first

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
