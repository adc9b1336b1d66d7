"""Starts broker processes quickly: what a broker imports is imported once, and every broker is a fork of this process.

Run as ``python -m tests.support.processes.launcher DESCRIPTOR``, the descriptor being a Unix socket. A request is one
line of JSON:
``{"start": {settings}}``, with the two descriptors that become the broker's standard output and error, is answered by
its process id; ``{"wait": pid}`` by its exit code, negative for a signal. A broker is a process of its own that serves
as ``forebay serve`` does, and ends with its exit codes. When the socket closes, its other end has ended, and the
brokers that are left are killed.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import traceback
from typing import Any, Final

import forebay.broker.storage.store.rocks.store  # noqa: F401 - imported before the fork
from forebay.broker.serve import serve
from forebay.broker.settings import load
from forebay.broker.storage.errors import StoreError
from forebay.cli.report import exit_code

REQUEST_BYTES_MAX: Final = 65_536


def become_broker(settings: dict[str, Any], output: int, errors: int) -> int:
    """Serve in this process; returns the exit code."""
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.close(output)
    os.close(errors)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")

    def ready(endpoint: str) -> None:
        os.write(1, f"listening on {endpoint}\n".encode())

    return serve(load(**settings), on_ready=ready)


def main(descriptor: int) -> None:
    """Answer requests until the socket closes."""
    running: set[int] = set()
    with socket.socket(fileno=descriptor) as asked:
        while True:
            line, passed, _, _ = socket.recv_fds(asked, REQUEST_BYTES_MAX, 2)
            if not line:
                break
            request = json.loads(line)
            if "start" in request:
                pid = os.fork()
                if pid == 0:
                    asked.close()
                    code = 70
                    try:
                        code = become_broker(request["start"], *passed)
                    except StoreError as error:  # such as a fence while it takes over
                        traceback.print_exc()
                        code = exit_code(error)
                    except BaseException:
                        traceback.print_exc()
                        raise
                    finally:
                        os._exit(code)
                for passed_descriptor in passed:
                    os.close(passed_descriptor)
                running.add(pid)
                asked.sendall(b"%d\n" % pid)
            else:
                _, status = os.waitpid(request["wait"], 0)
                running.discard(request["wait"])
                asked.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    for pid in running:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
