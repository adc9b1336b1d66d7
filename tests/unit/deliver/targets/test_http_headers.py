"""Headers of a request: names that a user may set, and secrets that no text repeats."""

from __future__ import annotations

import pytest

from forebay.deliver.targets.http_headers import Secrets, merged, problem_of_name, problem_of_value, secret_names


@pytest.mark.parametrize("name", ["X-Tenant", "User-Agent", "accept-encoding", "Host", "Connection", "X-Forebay-A"])
def test_a_header_of_the_request_is_the_users(name: str) -> None:
    assert problem_of_name(name) == ""


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "valid header name"),
        ("X A", "valid header name"),
        ("AUTHORIZATION", "authorization_env"),
        ("content-type", "content_type"),
        ("Idempotency-key", "set by the target"),
        ("Forebay-Resend", "set by the target"),
        ("forebay-anything", "set by the target"),
        ("Traceparent", "set by the target"),
        ("tracestate", "set by the target"),
        ("Content-Length", "would break the request"),
        ("transfer-encoding", "would break the request"),
        ("Upgrade", "would break the request"),
    ],
)
def test_a_header_that_is_not_the_users_has_a_reason(name: str, problem: str) -> None:
    assert problem in problem_of_name(name)


def test_a_value_is_printable_ascii() -> None:
    assert problem_of_value("a b\t~") == ""
    assert problem_of_value("a\n") != ""
    assert problem_of_value("é") != ""


def test_of_headers_that_differ_by_case_the_last_one_is_sent_once() -> None:
    found = merged([("User-Agent", "forebay"), ("Accept-Encoding", "identity")], [("user-agent", "mine")])

    assert found == {"user-agent": "mine", "Accept-Encoding": "identity"}


def test_names_of_secrets_are_known_by_their_end() -> None:
    names = ["X-Api-Key", "X-Auth-Token", "Cookie", "Authorization", "X-Tenant", "X-Token-Kind", "apikey"]

    assert secret_names(dict.fromkeys(names, "x")) == ["X-Api-Key", "X-Auth-Token", "Cookie", "Authorization", "apikey"]


@pytest.mark.parametrize(
    ("headers", "text", "expected"),
    [
        ({"Authorization": "Bearer s3cret"}, "no Bearer s3cret, s3cret", "no [credential], [credential]"),
        ({"X-Api-Key": "abc123"}, "unknown key abc123", "unknown key [credential]"),
        ({"Cookie": "session=s3cret; theme=dark"}, "session s3cret is over", "session [credential] is over"),
        ({"Authorization": 'Digest username="me", response="s3cret"'}, "s3cret?", "[credential]?"),
        ({"X-Api-Key": "abc", "X-Tenant": "customer"}, "abc of customer", "abc of [credential]"),
    ],
)
def test_secrets_are_removed_from_a_text(headers: dict[str, str], text: str, expected: str) -> None:
    assert Secrets(headers.values()).removed_from(text) == expected
