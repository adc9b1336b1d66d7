"""The page about retries says what the code does: errors, rules, numbers of attempts and time limits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from docs.generator.retries import markdown
from forebay.broker.settings import BrokerSettings
from forebay.client import ClientSettings, PublisherSettings, RetryPolicy, errors
from forebay.client.consume.stream import DAMAGED_MAX as STREAMS_MAX
from forebay.client.publish.window import DAMAGED_MAX as SENDS_MAX
from forebay.client.transport.reconnect import DAMAGED_MAX as MESSAGES_MAX
from forebay.client.transport.retry_rules import RULES
from forebay.client.transport.status import RETRY_AFTER_MAX_S, class_of
from forebay.errors.reasons import Reason

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs/reference/retries.md").read_text(encoding="utf-8")
NAME: Final = re.compile(r"`([A-Za-z0-9_]+)`")


def row(beginning: str) -> str:
    """Return the row of the page that begins with a text."""
    [found] = [line for line in PAGE.splitlines() if line.startswith(f"| {beginning}")]
    return found


def test_the_row_of_retryable_errors_names_their_classes_and_the_exceptions() -> None:
    classes, _, exceptions = row("every error that is `retryable`").split(" | ")[0].partition("except")
    retryable = [class_of(reason) for reason in Reason if reason.is_retryable]

    named = [getattr(errors, name) for name in NAME.findall(classes) if name != "retryable"]

    assert all(issubclass(kind, (*named, errors.PositionStoreError)) for kind in retryable)
    assert all(kind.passes or any(issubclass(one, kind) for one in retryable) for kind in named)
    assert set(NAME.findall(exceptions)) == {
        reason.name
        for reason in Reason
        if issubclass(class_of(reason), errors.ResourceExhausted) and not reason.is_retryable
    }


def test_the_numbers_of_attempts_and_the_limits_are_those_of_the_settings() -> None:
    policy, client = RetryPolicy(), ClientSettings()

    assert f"`retry` ({policy.budget_s:g} s, {policy.tries_max} attempts" in PAGE
    assert f"with a pause of up to {policy.delay_max_s:g} s" in PAGE
    assert STREAMS_MAX == SENDS_MAX == MESSAGES_MAX == 5
    assert "five times" in row("`PageCorrupt`")
    assert "five streams" in row("an undecodable message")
    assert f"`connect_timeout_s` ({client.connect_timeout_s:g} s" in PAGE
    assert f"({client.keepalive_s + client.keepalive_timeout_s:g} s)" in row("a peer that vanished")
    assert f"{RETRY_AFTER_MAX_S:g} s" in row("a pause that the broker requests")
    assert f"`session_timeout_s` ({BrokerSettings().session_timeout_s:g} s)" in PAGE


def test_the_names_of_settings_on_the_page_exist() -> None:
    known = {name for kind in (ClientSettings, PublisherSettings, BrokerSettings) for name in kind.__annotations__}
    named = set(re.findall(r"`([a-z]+_[a-z_]*_s)`", PAGE))

    assert named
    assert named <= known


def test_the_generated_table_has_each_rpc_once() -> None:
    rpcs = [rpc for line in markdown().splitlines()[2:] for rpc in NAME.findall(line.split(" | ")[0])]

    assert sorted(rpcs) == sorted(RULES)
