"""Secrets come from the environment or from a file, and are refused where they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.deliver.fleet.secret import SECRET_BYTES_MAX, Sources, check_literal


def test_a_variable_is_resolved(tmp_path: Path) -> None:
    assert Sources({"CRM": "s3cret"}, tmp_path).resolve({"env": "CRM"}) == "s3cret"


def test_a_file_is_read_beside_the_file_of_deliveries_without_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")

    assert Sources({}, tmp_path).resolve({"file": "token"}) == "s3cret"
    assert Sources({}, Path("/")).resolve({"file": str(tmp_path / "token")}) == "s3cret"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"env": "CRM"}, "the environment has no variable CRM"),
        ({"file": "absent"}, "cannot be read"),
        ({"file": "empty"}, "must have 1 to"),
        ({"file": "large"}, "must have 1 to"),
        ({"file": "binary"}, "is not UTF-8"),
        ({"env": "A", "file": "b"}, "a table must be"),
        ({"env": 1}, "a table must be"),
        ({}, "a table must be"),
    ],
)
def test_a_secret_that_cannot_be_resolved_is_reported_with_the_reason(
    tmp_path: Path, value: dict[str, object], said: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "large").write_bytes(b"x" * (SECRET_BYTES_MAX + 1))
    (tmp_path / "binary").write_bytes(b"\xff")

    with pytest.raises(ValueError, match=said):
        Sources({}, tmp_path).resolve(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("targets.a.options.password", "hunter2"),
        ("targets.a.options.header.Authorization", "Bearer hunter2"),
        ("targets.a.options.header.X-Api-Key", "hunter2"),
        ("targets.a.options.client_secret", "hunter2"),
        ("targets.a.options.url", "postgresql://me:hunter2@db/orders"),
        ("targets.a.to", "https://me:hunter2@example.org/"),
    ],
)
def test_a_secret_in_the_text_is_refused_and_not_quoted(name: str, text: str) -> None:
    with pytest.raises(ValueError, match="a secret must come from") as refused:
        check_literal(name, text)

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("targets.a.options.authorization_env", "CRM_TOKEN"),
        ("targets.a.options.credentials_file", "crm.env"),
        ("targets.a.options.key_file", "key.pem"),
        ("targets.a.to", "https://example.org/orders?by=key"),
        ("targets.a.to", "postgresql://me@db/orders"),
    ],
)
def test_names_of_secrets_are_no_secrets(name: str, text: str) -> None:
    check_literal(name, text)
