"""Target options of `forebay deliver`."""

from __future__ import annotations

import pytest

from forebay.cli.operate.deliver import resend_target_of, target_of
from forebay.cli.report import CommandFailed


def test_an_address_is_the_http_target() -> None:
    assert target_of("https://example.org/x", ["format=single"]) == (
        "http",
        {"url": "https://example.org/x", "format": "single"},
    )


def test_anything_else_is_a_name_and_options_keep_what_follows_the_first_equals_sign() -> None:
    assert target_of("my.module:Target", ["query=a=b"]) == ("my.module:Target", {"query": "a=b"})


@pytest.mark.parametrize("pair", ["path", "=x"])
def test_an_option_without_a_name_or_value_is_refused(pair: str) -> None:
    with pytest.raises(CommandFailed, match="must be NAME=VALUE"):
        target_of("file", [pair])


def test_a_second_target_of_the_same_kind_takes_over_the_options_of_the_first() -> None:
    options = {"url": "https://example.org/x", "format": "single"}

    assert resend_target_of("http", options, "https://example.org/late", ["format=ndjson"]) == (
        "http",
        {"url": "https://example.org/late", "format": "ndjson"},
    )
    assert resend_target_of("file", {"path": "a.jsonl"}, "file", ["path=b.jsonl"]) == ("file", {"path": "b.jsonl"})
    assert resend_target_of("http", options, "file", ["path=b.jsonl"]) == ("file", {"path": "b.jsonl"})


def test_a_path_is_another_path_at_the_same_address() -> None:
    assert resend_target_of("http", {"url": "https://example.org:1/x?y"}, "/late", []) == (
        "http",
        {"url": "https://example.org:1/late"},
    )
