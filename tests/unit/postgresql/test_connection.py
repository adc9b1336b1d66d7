"""Address of a database, and what an error says about the session; tests/stores has the tests on a real server."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

import pytest
from psycopg import errors

from forebay.postgresql import DatabaseAddress, connect, host_of, is_of_session, is_refused


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("postgresql:///db", ""),
        ("postgresql://user@db.example:5432/db", "db.example"),
        ("postgresql://user@[::1]:5432/db", "::1"),
        ("postgresql://[fe80::1%25eth0]/db", "fe80::1%eth0"),
        ("postgresql://%2Fvar%2Frun%2Fpostgresql/db", "/var/run/postgresql"),
        ("postgresql://user@%2Fhome%2FUser:5433/db", "/home/User"),
    ],
)
def test_the_host_of_a_url_is_a_name_an_address_or_the_folder_of_a_socket(url: str, host: str) -> None:
    assert host_of(urlsplit(url)) == host


def test_a_name_without_an_address_is_said() -> None:
    with pytest.raises(errors.OperationalError, match=r"failed to resolve host 'nowhere\.invalid'"):
        connect(
            DatabaseAddress("db", "nowhere.invalid"),
            ends_at=time.monotonic() + 5,
            timeout_s=5,
            application="forebay-test",
            credentials={},
        )


def test_addresses_that_do_not_answer_share_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        found = socket.getaddrinfo("127.0.0.1", port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found * 2)
        began = time.monotonic()

        with pytest.raises(errors.ConnectionTimeout):
            connect(
                DatabaseAddress("db", "db.example", port),
                ends_at=began + 9,
                timeout_s=9,
                application="forebay-test",
                credentials={},
            )

    assert time.monotonic() - began < 9


def test_an_error_of_a_session_is_no_error_of_a_statement() -> None:
    assert is_of_session(errors.OperationalError("server closed the connection unexpectedly"))
    assert is_of_session(errors.ReadOnlySqlTransaction())
    assert not is_of_session(errors.DeadlockDetected())
    assert not is_of_session(errors.UniqueViolation())
    assert not is_of_session(errors.DataError("a text with a zero"))


def test_a_refused_login_needs_other_settings() -> None:
    assert is_refused(errors.OperationalError('password authentication failed for user "u"'))
    assert not is_refused(errors.OperationalError("server closed the connection unexpectedly"))
