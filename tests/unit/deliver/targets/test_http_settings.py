"""Options of the HTTP target."""

from __future__ import annotations

import sys
from pathlib import Path

import httpcore2
import pytest

from forebay.deliver import InvalidOption
from forebay.deliver.targets.http_settings import Format, HttpSettings

URL = "https://example.org:8443/orders"


def test_options_become_settings() -> None:
    options = {
        "url": URL,
        "format": "json_array",
        "envelope": "true",
        "timeout_s": "2.5",
        "header.X-Tenant": "a",
        "authorization_env": "TOKEN",
    }

    assert HttpSettings.from_options(options) == HttpSettings(
        url=URL,
        format=Format.JSON_ARRAY,
        envelope=True,
        timeout_s=2.5,
        headers=(("X-Tenant", "a"),),
        authorization_env="TOKEN",
    )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "url"),
        ({"url": "example.org"}, "url"),
        ({"url": "ftp://example.org"}, "url"),
        ({"url": "http://"}, "url"),
        ({"url": "http://user:word@example.org"}, "url"),
        ({"url": "http://[::1"}, "url"),
        ({"url": URL, "format": "xml"}, "format"),
        ({"url": URL, "envelope": "maybe"}, "envelope"),
        ({"url": URL, "method": "GET"}, "method"),
        ({"url": URL, "timeout_s": "soon"}, "timeout_s"),
        ({"url": URL, "timeout_s": "0"}, "timeout_s"),
        ({"url": URL, "timeout_s": "nan"}, "timeout_s"),
        ({"url": URL, "connect_timeout_s": "601"}, "connect_timeout_s"),
        ({"url": URL, "retry_after_max_s": "-1"}, "retry_after_max_s"),
        ({"url": URL, "key_file": "k.pem"}, "key_file"),
        ({"url": "http://example.org:65536/"}, "url"),
        ({"url": "http://example.org:0/"}, "url"),
        ({"url": URL, "proxy": "http://127.0.0.1:99999"}, "proxy"),
        ({"url": URL, "header.Authorization": "Bearer x"}, "header.Authorization"),
        ({"url": URL, "header.content-type": "application/json"}, "header.content-type"),
        ({"url": URL, "header.idempotency-key": "x"}, "header.idempotency-key"),
        ({"url": URL, "header.transfer-encoding": "chunked"}, "header.transfer-encoding"),
        ({"url": URL, "header.X-A": "1", "header.x-a": "2"}, "header.x-a"),
        ({"url": URL, "colour": "blue"}, "colour"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        HttpSettings.from_options(options)

    assert refused.value.option == named


def test_a_password_in_the_url_is_not_repeated_in_the_refusal() -> None:
    with pytest.raises(InvalidOption) as refused:
        HttpSettings(url="http://user:word@example.org")

    assert "word@" not in str(refused.value)


def test_the_place_has_neither_query_nor_credentials() -> None:
    assert HttpSettings(url=URL + "?token=hidden#x").place == URL


def test_a_socks_proxy_without_its_package_is_refused_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    settings = HttpSettings(url=URL, proxy="socks5://127.0.0.1:1080")

    with pytest.raises(InvalidOption, match="pip install socksio") as refused:
        settings.pool(1, httpcore2.SyncBackend())

    assert refused.value.option == "proxy"


@pytest.mark.parametrize("option", ["ca_file", "cert_file"])
def test_a_certificate_that_is_not_there_is_said(tmp_path: Path, option: str) -> None:
    settings = HttpSettings.from_options({"url": URL, option: str(tmp_path / "missing.pem")})

    with pytest.raises(InvalidOption, match="No such file") as refused:
        settings.tls()

    assert refused.value.option == option


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("header.X-A", "a\r\nX-B: 1", "header.X-A"),
        ("header.X-A", "\x1b", "header.X-A"),
        ("header.X A", "a", "header.X A"),
        ("header.", "a", "header."),
        ("content_type", "text/plain\n", "content_type"),
        ("proxy", "ftp://127.0.0.1:1", "proxy"),
        ("proxy", "http://", "proxy"),
    ],
)
def test_a_header_or_proxy_that_cannot_be_is_refused_by_name(name: str, value: str, option: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        HttpSettings.from_options({"url": "http://h/", name: value})

    assert refused.value.option == option


@pytest.mark.parametrize(
    ("url", "proxy", "layers"),
    [
        ("http://h/", None, 0),
        ("https://h/", None, 1),
        ("http://h/", "http://p:1", 0),
        ("https://h/", "http://p:1", 1),
        ("http://h/", "https://p:1", 1),
        ("https://h/", "https://p:1", 2),
        ("https://h/", "socks5://p:1", 1),
    ],
)
def test_the_target_speaks_behind_so_many_layers_of_tls(url: str, proxy: str | None, layers: int) -> None:
    assert HttpSettings(url=url, proxy=proxy).tls_layers == layers
