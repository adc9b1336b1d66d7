"""Receiving system with a database, for trials of Forebay and for tests.

    python -m forebay.deliver.receiver --db PATH --listen 127.0.0.1:0

- ``POST /records`` takes envelopes, one a line (`forebay.deliver.targets.encoding`), and answers 200 once they are
  on disk; 422 for an invalid line, 413 over 64 MiB, 503 if the database cannot be written.
- ``GET /health`` answers 200 while it serves.
- ``GET /stats`` returns counts, see `forebay.deliver.receiver_store.Stats`.

The first line printed is a JSON object with ``url``, ``port`` and ``pid``. On SIGTERM and SIGINT it finishes
requests in progress and ends with exit code 0. The extra ``demo`` installs the web server.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sqlite3
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from forebay.deliver.receiver_store import Arrival, NotAnEnvelope, ReceiverStore
from forebay.packaging import install_command

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse
    from starlette.routing import Route
except ModuleNotFoundError as error:
    needs = f"the receiving system requires an extra of Forebay that is not installed: {install_command('demo')}"
    raise ModuleNotFoundError(needs, name=error.name) from error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from starlette.requests import Request
    from starlette.responses import Response

_BODY_BYTES_MAX: Final = 64 << 20
_GRACE_S: Final = 5


def application(store: ReceiverStore) -> Starlette:
    """Return the web application of the receiving system over a store."""

    def take(body: bytes) -> Response:
        try:
            arrivals = [Arrival.parse(line) for line in body.splitlines() if line.strip()]
        except NotAnEnvelope:
            return _problem(422, "A line is not an envelope")
        try:
            store.add(arrivals, now=datetime.now(UTC))
        except sqlite3.Error as error:
            return _problem(503, type(error).__name__)
        return JSONResponse({"taken": len(arrivals)})

    async def records(request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _BODY_BYTES_MAX:
                return _problem(413, "The request is too large")
        return await run_in_threadpool(take, bytes(body))

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def stats(_: Request) -> Response:
        return JSONResponse(asdict(await run_in_threadpool(store.stats)))

    return Starlette(
        routes=[
            Route("/records", records, methods=["POST"]),
            Route("/health", health),
            Route("/stats", stats),
        ]
    )


def serve(db: Path, *, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; port 0 is a free port. Raises `OSError` if the address is in use."""
    store = ReceiverStore(db)
    try:
        with socket.create_server((host, port), backlog=128) as listener:
            port = listener.getsockname()[1]
            line = {"url": f"http://{host}:{port}", "port": port, "pid": os.getpid()}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
            config = uvicorn.Config(
                application(store),
                log_level="warning",
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=_GRACE_S,
            )
            uvicorn.Server(config).run(sockets=[listener])
    finally:
        store.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line and return the exit code."""
    parser = argparse.ArgumentParser("python -m forebay.deliver.receiver", description="A receiving system.")
    parser.add_argument("--db", type=Path, required=True, help="SQLite file; created if missing")
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="port 0 is a free port")
    options = parser.parse_args(arguments)
    host, _, port = str(options.listen).rpartition(":")
    if not host or not port.isdecimal():
        parser.error(f"--listen {options.listen}: must be HOST:PORT")
    # The server forwards these signals after its shutdown, when nothing is left to do.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    serve(options.db, host=host, port=int(port))
    return 0


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


def _problem(status: int, title: str) -> Response:
    return JSONResponse({"title": title, "status": status}, status, media_type="application/problem+json")


if __name__ == "__main__":
    sys.exit(main())
