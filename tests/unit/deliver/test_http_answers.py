"""Answers of a real server, or their absence, as outcomes of the HTTP target."""

from __future__ import annotations

import json
import socket
from http import HTTPStatus
from threading import Event, Thread

import pytest

from forebay.deliver import Delivered, Reject, Retry
from forebay.deliver.targets.http_settings import HttpSettings
from tests.support.targets.http_opened import BATCH, opened
from tests.support.targets.scripted_server import Answer, Request, serving


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_transient_status_is_retried(status: int) -> None:
    with serving(lambda _: Answer(status)) as server, opened(HttpSettings(url=server.url)) as target:
        outcome = target.send(BATCH)

    assert isinstance(outcome, Retry)
    assert outcome.delay_s is None
    assert f"HTTP {status}" in outcome.reason


def test_a_refused_connection_is_retried() -> None:
    with serving() as server:
        url = server.url
    with opened(HttpSettings(url=url)) as target:
        outcome = target.send(BATCH)

    assert isinstance(outcome, Retry)
    assert "refused" in outcome.reason.lower()


def test_a_connection_that_is_closed_without_an_answer_is_retried() -> None:
    with serving(lambda _: Answer(0)) as server, opened(HttpSettings(url=server.url)) as target:
        assert isinstance(target.send(BATCH), Retry)


def test_an_answer_that_is_no_http_is_retried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"220 mail.example.org ESMTP\r\n")
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass  # closed with something unread, the connection would be reset

        other = Thread(target=answer)
        other.start()
        with opened(HttpSettings(url=f"http://127.0.0.1:{listener.getsockname()[1]}/")) as target:
            outcome = target.send(BATCH)
        other.join()

    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith("RemoteProtocolError")


def test_a_target_that_does_not_answer_in_time_is_retried() -> None:
    over = Event()

    def script(_: Request) -> Answer:
        over.wait(30)
        return Answer()

    with serving(script) as server, opened(HttpSettings(url=server.url, timeout_s=0.1)) as target:
        outcome = target.send(BATCH)
        over.set()

    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith("ReadTimeout")


@pytest.mark.parametrize(
    ("header", "delay_s"), [("17", 17.0), ("Wed, 01 May 2024 12:01:00 GMT", 60.0), ("86400", 600.0), ("later", None)]
)
def test_retry_after_is_honoured_within_its_bound(header: str, delay_s: float | None) -> None:
    with (
        serving(lambda _: Answer(503, {"Retry-After": header})) as server,
        opened(HttpSettings(url=server.url, retry_after_max_s=600.0)) as target,
    ):
        outcome = target.send(BATCH)

    assert isinstance(outcome, Retry)
    assert outcome.delay_s == delay_s


def test_a_reject_names_status_and_place_and_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_TOKEN", "Bearer s3cret")
    with serving(lambda _: Answer(422)) as server:
        settings = HttpSettings(url=server.url + "?token=hidden", authorization_env="ORDERS_TOKEN")
        with opened(settings) as target:
            outcome = target.send(BATCH)

    assert isinstance(outcome, Reject)
    assert outcome.reason == f"HTTP 422 {HTTPStatus(422).phrase} from {server.url}"
    assert server.requests[0].headers["Authorization"] == "Bearer s3cret"
    assert server.requests[0].path == "/records?token=hidden"


def test_the_title_of_a_problem_document_goes_into_the_reason_and_its_detail_does_not() -> None:
    problem = json.dumps({"title": "Unknown customer", "detail": "payload: 4711"}).encode()
    answer = Answer(400, {"Content-Type": "application/problem+json; charset=utf-8"}, problem)
    with serving(lambda _: answer) as server, opened(HttpSettings(url=server.url)) as target:
        outcome = target.send(BATCH)

    assert isinstance(outcome, Reject)
    assert outcome.reason.endswith(": Unknown customer")


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"title": 1}', b"[" * 10_000])
def test_a_problem_document_that_is_none_changes_nothing(body: bytes) -> None:
    answer = Answer(400, {"Content-Type": "application/problem+json"}, body)
    with serving(lambda _: answer) as server, opened(HttpSettings(url=server.url)) as target:
        assert isinstance(target.send(BATCH), Reject)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_retried(status: int) -> None:
    with (
        serving() as elsewhere,
        serving(lambda _: Answer(status, {"Location": elsewhere.url})) as server,
        opened(HttpSettings(url=server.url)) as target,
    ):
        outcome = target.send(BATCH)

    assert isinstance(outcome, Retry)
    assert elsewhere.requests == []


def test_connections_are_kept_and_an_endless_answer_is_not_read_to_its_end() -> None:
    with serving(lambda _: Answer(200, body=b"x" * 1000)) as server, opened(HttpSettings(url=server.url)) as target:
        for _ in range(3):
            target.send(BATCH)
        server.script = lambda _: Answer(200, body=b"x" * (50 << 20))
        assert target.send(BATCH) == Delivered()

    assert len({request.client_port for request in server.requests}) == 1


def test_an_answer_that_breaks_off_after_its_status_counts() -> None:
    with (
        serving(lambda _: Answer(200, {"Content-Length": "1000", "Connection": "close"}, b"x")) as server,
        opened(HttpSettings(url=server.url, timeout_s=0.3)) as target,
    ):
        assert target.send(BATCH) == Delivered()
