"""The validity of certificates is read as OpenSSL wrote it."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.credentials import validities
from tests.support.certificates import Authority


def test_begin_and_end_are_those_that_openssl_says(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.signed("broker")
    said = subprocess.run(
        ["openssl", "x509", "-in", pair.cert, "-noout", "-enddate", "-dateopt", "iso_8601"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    chain = pair.cert.read_text() + "a remark\n" + authority.cert.read_text() + pair.key.read_text()

    own, above = validities(chain)

    assert said.strip() == f"notAfter={own.ends:%Y-%m-%d %H:%M:%SZ}"
    assert own.ends - own.begins == timedelta(days=2)
    assert above.begins <= own.begins <= datetime.now(UTC)


@pytest.mark.parametrize("days", [1, 9_000, 40_000])
def test_both_forms_of_a_time_are_understood(days: int, tmp_path: Path) -> None:
    key, cert = tmp_path / "key", tmp_path / "cert"
    made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=x"]
    subprocess.run(
        ["openssl", *made, "-days", str(days), "-keyout", key, "-out", cert], check=True, capture_output=True
    )

    (found,) = validities(cert.read_text())

    assert found.ends - found.begins == timedelta(days=days)
    assert abs(datetime.now(UTC) - found.begins) < timedelta(hours=1)


def test_a_file_without_certificates_has_none(tmp_path: Path) -> None:
    assert list(validities("nothing")) == []


@settings(deadline=None)
@given(data=st.data())
def test_damage_is_a_value_error(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    text = _certificate(tmp_path_factory)
    place = data.draw(st.integers(28, len(text) - 30))
    damaged = text[:place] + data.draw(st.sampled_from("AZaz09+/")) + text[place + 1 :]

    with suppress(ValueError):
        list(validities(damaged))


_made: list[str] = []


def _certificate(factory: pytest.TempPathFactory) -> str:
    if not _made:
        _made.append(Authority(factory.mktemp("authority")).cert.read_text())
    return _made[0]
