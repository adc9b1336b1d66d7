"""Reference of retries: the rule of each rpc, from the table of the client."""

from __future__ import annotations

from collections.abc import Iterator

from docs.generator.table import table
from forebay.client.transport.retry_rules import RULES, Repeat, Rule


def markdown() -> str:
    """Return the table of rpcs by the effect of a second call; rpcs with the same reason share a row."""
    found: dict[tuple[str, str], list[str]] = {}
    for rpc, rule in _by_effect():
        found.setdefault((_retried(rule), _reason(rule)), []).append(f"`{rpc}`")
    return table(("rpc", "retried", "reason"), ((", ".join(rpcs), *facts) for facts, rpcs in found.items()))


def _by_effect() -> Iterator[tuple[str, Rule]]:
    for repeat in Repeat:
        yield from ((rpc, rule) for rpc, rule in RULES.items() if rule.repeat is repeat)


def _retried(rule: Rule) -> str:
    if rule.repeat is Repeat.NEVER:
        return "only if the broker states that it did not execute the call"
    return "yes, after every retryable error" if rule.any_shortage else "yes"


def _reason(rule: Rule) -> str:
    if rule.repeat is Repeat.NAMES:
        return f"guard in the request: {rule.why}"
    return rule.why or f"it {rule.repeat.value}"
