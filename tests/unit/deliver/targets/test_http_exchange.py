"""A request ends within its time, and what the status line said counts."""

from __future__ import annotations

import socket
import time

import httpcore2
import pytest

from forebay.deliver import Batch, Delivered, Reject, Retry
from forebay.deliver.targets.http_exchange import Exchange, Network
from forebay.deliver.targets.http_settings import HttpSettings
from tests.support.targets.http_opened import BATCH, opened
from tests.support.targets.memory_source import MemoryRecord
from tests.support.targets.raw_server import Answering, answering, dribbling, sending

TIMEOUT_S = 0.4
SLOW_S = 10.0
"""Far beyond the time-out, far below what the answers take."""


def outcome_of(answer: Answering, *, batch: Batch = BATCH, reads: bool = True) -> object:
    with answering(answer, reads=reads) as server:
        begun = time.monotonic()
        with opened(HttpSettings(url=server.url, timeout_s=TIMEOUT_S)) as target:
            outcome = target.send(batch)
        assert time.monotonic() - begun < SLOW_S
    return outcome


def test_a_status_line_that_dribbles_does_not_keep_a_request_beyond_its_time() -> None:
    outcome = outcome_of(dribbling(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0.4))

    assert isinstance(outcome, Retry)
    assert "timeout_s" in outcome.reason or "timed out" in outcome.reason


def test_headers_that_dribble_after_a_2xx_are_taken() -> None:
    def answer(connection: object, over: object) -> None:
        sending(b"HTTP/1.1 200 OK\r\n")(connection, over)  # type: ignore[arg-type]  # passed through
        dribbling(b"X-Slow: " + b"x" * 1000, 0.1)(connection, over)  # type: ignore[arg-type]  # passed through

    assert outcome_of(answer) == Delivered()


def test_a_body_that_dribbles_after_a_2xx_is_taken() -> None:
    def answer(connection: object, over: object) -> None:
        sending(b"HTTP/1.1 202 Accepted\r\nContent-Length: 1000\r\n\r\n")(connection, over)  # type: ignore[arg-type]  # passed through
        dribbling(b"x" * 1000, 0.1)(connection, over)  # type: ignore[arg-type]  # passed through

    assert outcome_of(answer) == Delivered()


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200\r\n",
        b"HTTP/1.1 204 No Content\r\nno header at all\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nRetry-After: 10000 Feb 1994 23:59:60 9999999999999999999999\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_an_answer_that_breaks_after_the_line_of_a_2xx_is_taken(text: bytes) -> None:
    assert outcome_of(sending(text, breaks=True)) == Delivered()


@pytest.mark.parametrize(
    "text", [b"HTTP/1.1 20", b"HTTP/1.1 200 OK", b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"200 OK\r\n"]
)
def test_an_answer_that_breaks_before_its_status_is_known_is_retried(text: bytes) -> None:
    assert isinstance(outcome_of(sending(text, breaks=True)), Retry)


def test_a_broken_answer_is_judged_by_its_status_whatever_it_is() -> None:
    assert isinstance(outcome_of(sending(b"HTTP/1.1 503 Away\r\nX", breaks=True)), Retry)
    assert isinstance(outcome_of(sending(b"HTTP/1.1 422 Wrong\r\nX", breaks=True)), Reject)


def test_a_target_that_reads_nothing_does_not_keep_a_request_beyond_its_time() -> None:
    large = Batch("orders", "1f2e-3d", 2, (MemoryRecord(5, b"x" * (16 << 20)),))

    outcome = outcome_of(sending(b""), batch=large, reads=False)

    assert isinstance(outcome, Retry)
    assert "Timeout" in outcome.reason


def test_an_answer_of_a_proxy_to_its_handshake_does_not_hide_the_status_of_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = httpcore2.MockStream([b"\x05\x00", b"HTTP/1.1 200 OK\r\n"])
    monkeypatch.setattr(httpcore2.SyncBackend, "connect_tcp", lambda *_: answers)
    network = Network(lambda: 0.0)
    exchange = network.begin(20.0, 0)
    connection = network.connect_tcp("127.0.0.1", 1080)

    connection.write(b"\x05\x01\x00")
    connection.read(100)
    assert exchange.status is None
    connection.write(b"POST / HTTP/1.1\r\n\r\n")
    connection.read(100)

    assert exchange.status == 200


class Addresses:
    """A host whose addresses do not answer, except those named, and a clock that only its attempts advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: list[str], *, alive: str = "") -> None:
        self.now = 100.0
        self.tried: list[tuple[str, float]] = []
        self._alive = alive
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (name, 80)) for name in names]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        monkeypatch.setattr(httpcore2.SyncBackend, "connect_tcp", self.connect)

    def connect(self, host: str, port: int, timeout: float, *_: object) -> httpcore2.NetworkStream:
        self.tried.append((host, timeout))
        if host == self._alive:
            return httpcore2.MockStream([])
        self.now += timeout
        raise httpcore2.ConnectTimeout(f"{host} timed out")


def test_connecting_to_all_addresses_of_a_host_ends_within_the_time_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Addresses(monkeypatch, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.2"])
    network = Network(lambda: host.now)
    network.begin(20.0, 0)

    with pytest.raises(httpcore2.ConnectTimeout, match=r"10\.0\.0\.4"):
        network.connect_tcp("h", 80, 4.0)

    assert host.tried == [(f"10.0.0.{last}", 1.0) for last in (1, 2, 3, 4)]
    assert host.now == 104.0


def test_a_link_local_address_is_connected_in_its_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Addresses(monkeypatch, [], alive="fe80::1%2")
    places = [("fe80::1", 80, 0, 2), ("fe80::1", 80, 0, 0)]
    found = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", place) for place in places]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    network = Network(lambda: host.now)
    network.begin(2.0, 0)

    network.connect_tcp("printer.local", 80, 5.0).close()

    assert [name for name, _ in host.tried] == ["fe80::1%2"]


def test_an_address_that_does_not_answer_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Addresses(monkeypatch, ["10.0.0.1", "10.0.0.2"], alive="10.0.0.2")
    network = Network(lambda: host.now)
    network.begin(2.0, 0)

    network.connect_tcp("h", 80, 5.0).close()

    assert host.tried == [("10.0.0.1", 1.0), ("10.0.0.2", 1.0)]


def test_a_host_that_has_no_address_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    with opened(HttpSettings(url="http://h/")) as target:
        outcome = target.send(BATCH)

    assert isinstance(outcome, Retry)
    assert "Name or service not known" in outcome.reason


def test_a_status_line_of_a_proxy_is_not_taken_for_an_answer_of_the_target() -> None:
    proxy_says = b"HTTP/1.1 200 Connection established\r\n"
    with answering(sending(proxy_says, breaks=True)) as proxy:
        settings = HttpSettings(url="https://127.0.0.1:1/", proxy=f"http://127.0.0.1:{proxy.port}", timeout_s=TIMEOUT_S)
        with opened(settings) as target:
            outcome = target.send(BATCH)

    assert isinstance(outcome, Retry)
    assert proxy.requests == 1


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"", None),
        (b"HTTP/1.1 200 OK\r", None),
        (b"HTTP/1.0 404 Not Found\r\n", 404),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n", None),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 103 E\r\n\r\nHTTP/1.1 200 OK\r\n", 200),
        (b"SSH-2.0-x\r\nHTTP/1.1 200 OK\r\n", None),
    ],
)
def test_the_status_is_read_from_whole_lines_at_the_beginning(head: bytes, status: int | None) -> None:
    exchange = Exchange(0.0, 0)
    for index in range(len(head)):
        exchange.received(head[index : index + 1])

    assert exchange.status == status
