"""Credentials are stored as hashes with their rights, and errors of the file never repeat a secret."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.access.credentials import (
    CREDENTIALS_MAX,
    Credentials,
    CredentialsInvalid,
    certificate_credential,
    parse,
    proof_of,
    token_credential,
)
from forebay.broker.core.access.principal import Right


def name_of(credentials: Credentials, token: str) -> str | None:
    principal = credentials.principal_of(proof_of(token))
    return None if principal is None else principal.name


def line(name: str, token: str, *rights: str) -> str:
    return token_credential(name, token, rights or ["admin=*"]).line


def test_a_token_is_known_by_its_hash_and_another_is_not() -> None:
    found = parse(f"{line('spark', 'one')}\n{line('deliverer', 'two')}\n")

    assert [name_of(found, token) for token in ("one", "two", "three", "")] == ["spark", "deliverer", None, None]


def test_a_line_begins_with_what_sha256sum_prints() -> None:
    assert line("spark", "one", "publish=orders") == f"spark:sha256:{sha256(b'one').hexdigest()} publish=orders"


def test_a_principal_may_have_two_tokens_while_one_replaces_the_other() -> None:
    found = parse(f"{line('spark', 'old')}\n{line('spark', 'new', 'publish=a')}")

    assert [name_of(found, "old"), name_of(found, "new")] == ["spark", "spark"]


def test_empty_lines_and_comments_are_skipped() -> None:
    found = parse(f"\n# the nightly job\n  {line('spark', 'one')}  \n")

    assert name_of(found, "one") == "spark"


def test_a_certificate_is_known_by_one_of_its_names_and_never_by_a_token() -> None:
    found = parse(certificate_credential("edge", "spiffe://plant/edge", ["publish=plant-*"]).line)

    edge = found.principal_of(proof_of(None, frozenset({"edge", "spiffe://plant/edge"})))
    assert edge is not None
    assert edge.name == "edge"
    assert found.principal_of(proof_of(None, frozenset({"other"}))) is None
    assert found.principal_of(proof_of("spiffe://plant/edge")) is None
    assert found.certificates


@pytest.mark.parametrize(
    "text",
    ["spark:secret-token", "spark:sha256:abc", f"sha256:{'0' * 64}", f"two words:sha256:{'0' * 64}", "secret-token"],
)
def test_a_wrong_line_is_named_by_its_number_and_its_content_is_not_repeated(text: str) -> None:
    with pytest.raises(CredentialsInvalid, match="line 2 does not begin with NAME:sha256:HEX") as caught:
        parse(f"\n{text}\n")

    assert "secret-token" not in str(caught.value)


@pytest.mark.parametrize(
    ("rights", "said"),
    [
        ("", "no right is given"),
        ("calls_per_s=5", "no right is given"),
        ("write=orders", "'write' is not a right: use one of publish, consume"),
        ("publish=Orders", "'Orders' is not a pattern"),
        ("publish=", "is not RIGHT=PATTERN"),
        ("publish", "is not RIGHT=PATTERN"),
        ("publish=a,,b", "'' is not a pattern"),
        ("publish=a bytes_per_s=0", "bytes_per_s = '0': must be 1 to"),
        ("publish=a calls_per_s=many", "calls_per_s = 'many': must be 1 to"),
        ("publish=" + ",".join(["a"] * 257), "257 rights are more than 256"),
    ],
)
def test_wrong_rights_are_refused_with_their_line_and_what_is_allowed(rights: str, said: str) -> None:
    with pytest.raises(CredentialsInvalid, match=r"line 1 \(spark\): ") as caught:
        parse(f"spark:sha256:{'0' * 64} {rights}")

    assert said in str(caught.value)


def test_a_file_without_a_credential_is_refused_since_it_would_lock_out_every_caller() -> None:
    with pytest.raises(CredentialsInvalid, match="forebay token create"):
        parse("# nothing yet\n")


def test_the_number_of_credentials_is_bounded_since_each_call_is_compared_with_all() -> None:
    lines = [line("many", str(number)) for number in range(CREDENTIALS_MAX + 1)]

    assert name_of(parse("\n".join(lines[1:])), str(CREDENTIALS_MAX)) == "many"
    with pytest.raises(CredentialsInvalid, match="1001 credentials are more than 1000"):
        parse("\n".join(lines))


@pytest.mark.parametrize("name", ["", "two words", "a:b", "x" * 65, "-a"])
def test_a_name_that_the_file_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(CredentialsInvalid, match="the name"):
        token_credential(name, "one", ["admin=*"])


@pytest.mark.parametrize("identity", ["two words", "x" * 256])
def test_a_certificate_name_that_the_file_cannot_hold_is_refused(identity: str) -> None:
    with pytest.raises(CredentialsInvalid, match="the certificate name"):
        certificate_credential("edge", identity, ["admin=*"])


@given(
    grants=st.lists(
        st.tuples(st.sampled_from(list(Right)), st.from_regex(r"[a-z0-9*._-]{1,12}", fullmatch=True)),
        min_size=1,
        max_size=6,
    ),
    calls=st.integers(0, 1_000),
)
def test_a_line_that_was_written_is_read_back_with_the_same_rights(grants: list[tuple[Right, str]], calls: int) -> None:
    words = [f"{right}={pattern}" for right, pattern in grants] + ([f"calls_per_s={calls}"] if calls else [])

    made = token_credential("spark", "one", words)

    read = parse(made.line).every[0]
    assert set(read.principal.grants) == set(made.principal.grants)
    assert read.principal.limits.calls_per_s == calls
