"""A real HTTP server on the loopback interface that answers as a test wants and keeps every request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from ssl import SSLContext
from threading import Thread


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    headers: Message
    body: bytes
    client_port: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a request; ``status`` 0 closes the connection without an answer."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


Script = Callable[[Request], Answer]


@dataclass(slots=True)
class ScriptedServer:
    """A running server."""

    scheme: str
    port: int
    requests: list[Request]
    script: Script

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"{self.scheme}://127.0.0.1:{self.port}/records"


@contextmanager
def serving(
    script: Script = lambda _: Answer(), *, port: int = 0, tls: SSLContext | None = None
) -> Iterator[ScriptedServer]:
    """Serve until the block ends."""
    running = ScriptedServer("http" if tls is None else "https", 0, [], script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.command, self.path, self.headers, body, self.client_address[1])
            running.requests.append(request)
            answer = running.script(request)
            if answer.status == 0:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        do_POST = do_PUT = do_PATCH = do_GET = _handle

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def get_request(self) -> tuple[socket, object]:
            connection, address = super().get_request()
            if tls is not None:
                connection = tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            return connection, address

        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing of connections that a client broke off."""

    with Server(("127.0.0.1", port), Handler) as server:
        running.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="scripted-server")
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()
            thread.join()
