"""Completion of names in a shell: sinks, subscriptions, settings and targets.

It is quiet and quick: a broker that does not answer within `TIME_S` completes nothing, and no error is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from forebay.cli.contact import DEFAULT_ENDPOINT, connect
from forebay.cli.security import client_settings, set_options, variables_of

if TYPE_CHECKING:
    from forebay.client import Client

TIME_S: Final = 1.2
"""Time limit of a call to the broker; with the start of the command it stays below two seconds."""

ADDRESSES: Final[Mapping[str, str]] = {
    "http://": "http",
    "https://": "http",
    "postgresql://": "postgresql",
    "postgres://": "postgresql",
}
"""Name of a target by the beginning of an address."""


def sink_names(ctx: Any, incomplete: str) -> list[str]:
    """Return the names of sinks."""
    return _asked(ctx, lambda client: [one.name for one in client.sinks.list()], incomplete)


def subscription_names(ctx: Any, incomplete: str) -> list[str]:
    """Return the subscriptions of the sink that was typed before."""
    # Arguments in front of an option without its value yet are not parsed: SINK is the first of them.
    sink = ctx.params.get("sink") or next(iter(ctx.args), "")
    if not sink:
        return []
    return _asked(ctx, lambda client: [one.name for one in client.subscriptions.list(sink)], incomplete)


def sink_settings(ctx: Any, incomplete: str) -> list[str]:
    """Return the settings of a sink as ``NAME=``, and the values of a setting with few."""
    from forebay.client import SinkSettings

    return _settings(get_type_hints(SinkSettings), incomplete)


def broker_settings(ctx: Any, incomplete: str) -> list[str]:
    """Return the settings of a broker as ``NAME=``, and the values of a setting with few."""
    try:
        from forebay.broker.core.settings import SETTINGS
        from forebay.broker.settings import BrokerSettings
    except ModuleNotFoundError:  # the extra is not installed
        return []
    kinds = {name: field.annotation for name, field in BrokerSettings.model_fields.items() if name != "sink_defaults"}
    of_sinks = {f"sink_defaults.{one.public_name}": one.choices or type(one.default) for one in SETTINGS}
    return _settings({**kinds, **of_sinks}, incomplete)


def target_names(ctx: Any, incomplete: str) -> list[str]:
    """Return the names of targets."""
    try:
        from forebay.deliver.targets.registry import names
    except ModuleNotFoundError:  # the extra is not installed
        return []
    return _beginning(names(), incomplete)


def target_options(ctx: Any, incomplete: str) -> list[str]:
    """Return the options of the typed target as ``NAME=``, and the values of an option with few."""
    return _target_options(str(ctx.params.get("to") or ""), incomplete)


def resend_options(ctx: Any, incomplete: str) -> list[str]:
    """Return the options of the typed resend target, as `target_options`; a path is of the first target."""
    target = str(ctx.params.get("resend_to") or "")
    return _target_options(str(ctx.params.get("to") or "") if target.startswith("/") else target, incomplete)


def _target_options(target: str, incomplete: str) -> list[str]:
    for prefix, name in ADDRESSES.items():
        target = name if target.startswith(prefix) else target
    try:
        from forebay.deliver.errors import DeliverError
        from forebay.deliver.targets.options import description_of
        from forebay.deliver.targets.registry import load
    except ModuleNotFoundError:  # the extra is not installed
        return []
    try:
        options = description_of(load(target)).options
    except DeliverError:
        return []
    few = {one.name: one.allowed.split(", ") for one in options if one.type in {"choice", "boolean"}}
    return _assignments([one.name for one in options], few, incomplete)


def _settings(kinds: Mapping[str, Any], incomplete: str) -> list[str]:
    few: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        if kind is bool:
            few[name] = ["true", "false"]
        elif isinstance(kind, type) and issubclass(kind, Enum):
            few[name] = [member.name for member in kind if member.name != "UNSPECIFIED"]
    return _assignments(list(kinds), few, incomplete)


def _assignments(names: list[str], few: Mapping[str, list[str]], incomplete: str) -> list[str]:
    name, equals, _ = incomplete.partition("=")
    if equals:
        return _beginning([f"{name}={value}" for value in few.get(name, ())], incomplete)
    return _beginning([f"{one}=" for one in names], incomplete)


def _beginning(names: Any, incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _asked(ctx: Any, ask: Callable[[Client], list[str]], incomplete: str) -> list[str]:
    """Return the names that the broker answers with; none if it does not."""
    from forebay.client.errors import ForebayError

    try:
        with _quick_client(ctx) as client:
            return _beginning(ask(client), incomplete)
    except ForebayError:
        return []


@contextmanager
def _quick_client(ctx: Any) -> Iterator[Client]:
    """Open a client with the options that were typed, which neither waits nor logs."""
    from forebay.client import RetryPolicy

    logging.getLogger("forebay").addHandler(logging.NullHandler())
    logging.getLogger("forebay").propagate = False
    set_options(variables_of(ctx.find_root().params))
    settings = replace(client_settings(), call_timeout_s=TIME_S, retry=RetryPolicy(tries_max=1))
    endpoint = str(ctx.params.get("endpoint") or DEFAULT_ENDPOINT)
    with connect(endpoint, is_needed=False, settings=settings) as client:
        yield client
