"""A console answers to the names of this machine, and to tokens of the broker."""

from __future__ import annotations

import base64

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from forebay.broker.console.access import Access
from forebay.broker.core.access.credentials import Credentials, token_credential

TOKEN = "t" * 43
CREDENTIALS = Credentials((token_credential("viewer", TOKEN, ["view=orders"]),))


def request(host: str = "localhost:7462", authorization: str = "") -> Request:
    headers = [(b"host", host.encode())]
    if authorization:
        headers.append((b"authorization", authorization.encode()))
    return Request({"type": "http", "method": "GET", "path": "/", "headers": headers, "query_string": b""})


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def refused(access: Access, given: Request) -> HTTPException:
    with pytest.raises(HTTPException) as error:
        access.admit(given)
    return error.value


@pytest.mark.parametrize("host", ["localhost:7462", "LOCALHOST", "127.0.0.1:7462", "[::1]:7462"])
def test_a_browser_of_this_machine_is_admitted(host: str) -> None:
    assert Access(lambda: None, "127.0.0.1").admit(request(host)).name == "anonymous"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:7462"])
def test_a_page_of_another_site_that_resolves_to_this_machine_is_refused(host: str) -> None:
    assert refused(Access(lambda: None, "127.0.0.1"), request(host)).status_code == 421


def test_a_console_on_another_address_answers_to_every_name() -> None:
    assert Access(lambda: None, "0.0.0.0").admit(request("forebay.example")).name == "anonymous"


@pytest.mark.parametrize("authorization", [f"Bearer {TOKEN}", basic(f"me:{TOKEN}"), basic(f":{TOKEN}")])
def test_a_token_of_the_broker_is_its_principal(authorization: str) -> None:
    access = Access(lambda: CREDENTIALS, "127.0.0.1")

    assert access.admit(request(authorization=authorization)).name == "viewer"


@pytest.mark.parametrize(
    "authorization", ["", "Bearer x", basic(TOKEN), "Basic ???", "Digest x", f"Bearer {'x' * 100_000}", "Basic /w=="]
)
def test_anything_else_is_asked_for_a_token(authorization: str) -> None:
    error = refused(Access(lambda: CREDENTIALS, "127.0.0.1"), request(authorization=authorization))

    assert error.status_code == 401
    assert (error.headers or {})["WWW-Authenticate"].startswith("Basic")


def test_a_revoked_token_is_refused_at_the_next_request() -> None:
    current = [CREDENTIALS]
    access = Access(lambda: current[0], "127.0.0.1")
    access.admit(request(authorization=f"Bearer {TOKEN}"))

    current[0] = Credentials((token_credential("other", "o" * 43, ["view=*"]),))

    assert refused(access, request(authorization=f"Bearer {TOKEN}")).status_code == 401
