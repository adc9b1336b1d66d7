"""Client of a command, and its first contact: an unreachable broker is reported within two seconds.

The address, TLS and token are those that were typed, or those of the environment.

Later calls of the command keep the limits and retries of the client.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from forebay.cli.exits import ExitCode
from forebay.cli.output import seconds_text, write_message
from forebay.cli.report import CommandFailed
from forebay.cli.security import client_settings

if TYPE_CHECKING:
    from forebay.client import Client, ClientSettings, ForebayError

DEFAULT_ENDPOINT: Final = "127.0.0.1:7461"
"""Default address of a broker."""

PATIENCE_S: Final = 1.0
"""Time for the first answer of a broker, unless ``--wait`` gives another."""

ACCEPT_S: Final = 0.3
"""Time for a broker that has not answered to accept a connection."""

RETRY_S: Final = 0.25
"""Pause before the members of a fleet are tried again."""

ORIGINS: Final[Mapping[str, str]] = {
    "COMMANDLINE": "from --endpoint",
    "ENVIRONMENT": "from FOREBAY_ENDPOINT",
}
"""Source of the address, by the name of Click; of all others it is the default."""

_CAUSES: Final = (
    (re.compile(r"connection refused", re.IGNORECASE), "the connection was refused"),
    (re.compile(r"dns|name.*resol|resol.*name|getaddrinfo|domain name", re.IGNORECASE), "the name is unknown"),
    (re.compile(r"no such file", re.IGNORECASE), "the socket does not exist"),
    (re.compile(r"timed? ?out|deadline", re.IGNORECASE), "no answer"),
)
"""Short forms of the messages of gRPC."""

_FOREIGN: Final = (
    (re.compile(r"received http2 header with status: (?!429|50[234])(\d{3})", re.IGNORECASE), "it answers HTTP status"),
    (re.compile(r"failed parsing http/2|http ?/?1\.[x01] server", re.IGNORECASE), "it does not speak HTTP/2"),
    (re.compile(r"method not found|unknown (method|service)", re.IGNORECASE), "it does not know the calls of a broker"),
)
"""Messages of gRPC about a server that is no broker, with what they say."""


@dataclass(frozen=True, slots=True)
class Given:
    """Choices of the command line about the broker."""

    origin: str = ""
    """Source of the address; see `ORIGINS`."""

    wait_s: float | None = None
    """Time to wait for the broker; None is `PATIENCE_S`."""


GIVEN: Final[ContextVar[Given]] = ContextVar("forebay_contact", default=Given())  # noqa: B039 - it is frozen
"""Choices for the command that runs."""


class BrokerUnreachable(CommandFailed):
    """The broker of a command does not answer."""

    def __init__(self, endpoint: str, cause: str) -> None:
        given = GIVEN.get()
        origin = ORIGINS.get(given.origin, "the default")
        waited = "" if given.wait_s is None else f" within {seconds_text(given.wait_s)}"
        super().__init__(
            f"no broker answers at {endpoint} ({origin}){waited}: {cause}",
            ExitCode.UNAVAILABLE,
            reason="UNREACHABLE",
            facts={"endpoint": endpoint, "origin": origin, "cause": cause},
            advice="start it, name another with --endpoint or FOREBAY_ENDPOINT, or wait for it with --wait 1m",
        )


class NotABroker(CommandFailed):
    """A server that is no broker answers at the address of a command."""

    def __init__(self, endpoint: str, cause: str) -> None:
        origin = ORIGINS.get(GIVEN.get().origin, "the default")
        super().__init__(
            f"the server at {endpoint} ({origin}) is no Forebay broker: {cause}",
            ExitCode.UNAVAILABLE,
            reason="NOT_A_BROKER",
            facts={"endpoint": endpoint, "origin": origin, "cause": cause},
            advice="name the gRPC port of the broker (7461 by default), not that of its console, with --endpoint or "
            "FOREBAY_ENDPOINT",
        )


@contextmanager
def connect(
    endpoint: str, sink: str | None = None, *, is_needed: bool = True, settings: ClientSettings | None = None
) -> Iterator[Client]:
    """Open a client of the broker at ``endpoint`` after its answer; of several, that of ``sink``, or all.

    TLS and token come from the options before the command, or from the environment. Raises `BrokerUnreachable` and
    `NotABroker`, unless no broker is needed. ``settings`` replace those that `client_settings` returns.
    """
    from forebay.client import Client

    with Client(endpoint, settings=settings if settings is not None else client_settings()) as client:
        if is_needed:
            reach(client, sink)
        yield client


def reach(client: Client, sink: str | None = None) -> None:
    """Return when the brokers of a command have answered; of one sink, or all.

    Of a fleet one member suffices.

    Raises `BrokerUnreachable`, and `NotABroker` where another server answers. A broker that accepts connections and is
    too busy to answer is reported, and waited for as the client does. A rejected certificate is raised. Other errors
    prove an answer; the command will report them.
    """
    if client.is_fleet:
        _reach_member(client)
        return
    for endpoint in client.endpoints if sink is None else [client.endpoint_of(sink)]:
        _reach(client, endpoint)


def _reach_member(client: Client) -> None:
    """Return when a member of a fleet has listed the shards. Raises `BrokerUnreachable`."""
    from forebay.client.errors import BrokerUnavailable
    from forebay.client.transport.endpoint import FLEET

    limit_s = GIVEN.get().wait_s
    until = time.monotonic() + (PATIENCE_S if limit_s is None else limit_s)
    _reach_any(client)
    while True:
        try:
            client.shards.list()
        except BrokerUnavailable as error:
            if time.monotonic() >= until:
                raise BrokerUnreachable(f"{FLEET}{','.join(client.endpoints)}", _cause(error)) from error
        else:
            return
        time.sleep(RETRY_S)


def _reach_any(client: Client) -> None:
    """Return when a member of a fleet has answered; all are asked at the same time.

    Raises `BrokerUnreachable` with the address of the fleet if none answers, or the error of one that does.
    """
    from forebay.client.transport.endpoint import FLEET
    from forebay.client.transport.threads import GuardedThread

    answers: SimpleQueue[Exception | None] = SimpleQueue()
    cause = ""
    for endpoint in client.endpoints:
        work = partial(copy_context().run, _report_reach, client, endpoint, answers)
        GuardedThread(work, name=f"forebay-reach-{endpoint}", on_fault=answers.put).start()
    answered: Exception | None = None
    for _ in client.endpoints:
        failure = answers.get()
        if failure is None:
            return
        if isinstance(failure, BrokerUnreachable):
            cause = failure.facts["cause"]
        else:
            answered = failure
    raise answered or BrokerUnreachable(f"{FLEET}{','.join(client.endpoints)}", cause)


def _report_reach(client: Client, endpoint: str, answers: SimpleQueue[Exception | None]) -> None:
    """Reach a member, and put None or its error."""
    from forebay.client import ForebayError

    try:
        _reach(client, endpoint)
    except (CommandFailed, ForebayError) as error:
        answers.put(error)
    else:
        answers.put(None)


def _reach(client: Client, endpoint: str) -> None:
    from forebay.client import ForebayError
    from forebay.client.errors import AccessDenied, DeadlineExceeded, InvalidArgument
    from forebay.errors.reasons import Reason

    limit_s = GIVEN.get().wait_s
    patience_s = PATIENCE_S if limit_s is None else max(limit_s, 0.05)
    try:
        client.info(endpoint, timeout_s=patience_s)
    except DeadlineExceeded as error:
        if limit_s is not None or not _accepts(endpoint):
            raise BrokerUnreachable(endpoint, _cause(error)) from error
        write_message(
            f"forebay: the broker at {endpoint} accepts connections, but has not answered for "
            f"{seconds_text(patience_s)}; waiting for it"
        )
    except (InvalidArgument, AccessDenied) as error:
        if isinstance(error, InvalidArgument) or error.reason == Reason.HANDSHAKE_FAILED.name:
            raise
    except ForebayError as error:
        if foreign := _foreign(error):
            raise NotABroker(endpoint, foreign) from error
        if error.reason == Reason.UNREACHABLE.name:
            raise BrokerUnreachable(endpoint, _cause(error)) from error


def _accepts(endpoint: str) -> bool:
    """Return True if the endpoint is HOST:PORT and accepts connections."""
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ACCEPT_S).close()
    except (OSError, ValueError):
        return False
    return True


def _cause(error: ForebayError) -> str:
    """Return the short form of a message of gRPC, or the message."""
    text = str(error)
    return next((short for known, short in _CAUSES if known.search(text)), text)


def _foreign(error: ForebayError) -> str:
    """Return the evidence that a server is no broker; empty if there is none."""
    text = str(error)
    for known, short in _FOREIGN:
        if found := known.search(text):
            status = found[1] if found.re.groups and found[1] else ""
            return f"{short} {status}" if status.isdigit() else short
    return ""
