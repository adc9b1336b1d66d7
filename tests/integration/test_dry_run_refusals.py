"""A dry run, and a command before its question, refuse what the broker refuses, with the same error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, ForebayError, Record
from tests.support.calls.eventually import stats_when

Call = Callable[[Client], object]

REFUSED: Final[Mapping[str, tuple[list[str], Call, ExitCode]]] = {
    "seek of a subscription that does not exist": (
        ["subscription", "seek", "orders", "typo", "--to", "latest"],
        lambda client: client.subscriptions.seek("orders", "typo", to="latest"),
        ExitCode.NOT_FOUND,
    ),
    "seek of a partition that does not exist": (
        ["subscription", "seek", "orders", "audit", "--to", "latest", "-p", "9"],
        lambda client: client.subscriptions.seek("orders", "audit", to="latest", partition=9),
        ExitCode.USAGE,
    ),
    "seek to an offset of a partition that does not exist": (
        ["subscription", "seek", "orders", "audit", "--to", "9=1"],
        lambda client: client.subscriptions.seek("orders", "audit", to={9: 1}),
        ExitCode.USAGE,
    ),
    "seek beyond the end": (
        ["sink", "seek", "orders", "--to", "1=99"],
        lambda client: client.subscriptions.seek("orders", to={1: 99}),
        ExitCode.REFUSED,
    ),
    "seek to a trimmed offset": (
        ["subscription", "seek", "trimmed", "default", "--to", "0"],
        lambda client: client.subscriptions.seek("trimmed", to=0),
        ExitCode.REFUSED,
    ),
    "seek that selects partitions twice": (
        ["subscription", "seek", "orders", "audit", "--to", "0=1", "-p", "0"],
        lambda client: client.subscriptions.seek("orders", "audit", to={0: 1}, partition=0),
        ExitCode.USAGE,
    ),
    "deletion of a subscription that does not exist": (
        ["subscription", "delete", "orders", "typo"],
        lambda client: client.subscriptions.delete("orders", "typo"),
        ExitCode.NOT_FOUND,
    ),
    "deletion of the default subscription": (
        ["subscription", "delete", "orders", "default"],
        lambda client: client.subscriptions.delete("orders", "default"),
        ExitCode.REFUSED,
    ),
    "purge of a partition that does not exist": (
        ["sink", "purge", "orders", "--all", "-p", "99"],
        lambda client: client.sinks.purge("orders", partition=99),
        ExitCode.USAGE,
    ),
    "purge up to an offset of no partition": (
        ["sink", "purge", "orders", "--until-offset", "1"],
        lambda client: client.sinks.purge("orders", until_offset=1),
        ExitCode.USAGE,
    ),
    "purge beyond the end": (
        ["sink", "purge", "orders", "-p", "0", "--until-offset", "99"],
        lambda client: client.sinks.purge("orders", partition=0, until_offset=99),
        ExitCode.REFUSED,
    ),
}


@pytest.fixture
def sinks(client: Client) -> Client:
    """Return a client of two sinks: ``orders``, with a subscription, and ``trimmed``, without its first records."""
    client.sinks.create("orders", partitions=2)
    client.subscriptions.create("orders", "audit")
    client.publish("orders", [Record(b"x")] * 5, partition=0)
    client.sinks.create("trimmed")
    for _ in range(2):
        client.publish("trimmed", [Record(b"x")] * 5)
    with client.subscriber("trimmed") as subscriber:
        next(subscriber).ack(0, 4, wait=True)
    stats_when(client, "trimmed", lambda stats: stats.partitions[0].earliest_offset == 5)
    return client


def refusal(call: Call, client: Client) -> ForebayError:
    """Return the error of a call."""
    with pytest.raises(ForebayError) as refused:
        call(client)
    return refused.value


@pytest.mark.parametrize("how", [["--dry-run"], []])
@pytest.mark.parametrize(("words", "call", "code"), REFUSED.values(), ids=REFUSED)
def test_a_command_refuses_before_anything_is_done_what_the_broker_refuses(
    broker: BrokerServer,
    sinks: Client,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    call: Call,
    code: ExitCode,
    how: list[str],
) -> None:
    assert run([*words, *how, "-e", broker.endpoint, "-o", "json"]) == code

    shown = capsys.readouterr()
    wanted, found = refusal(call, sinks), json.loads(shown.err)
    assert shown.out == ""
    assert (found["reason"], found["message"], found["facts"]) == (wanted.reason, str(wanted), wanted.facts)


def test_a_dry_run_of_a_seek_into_a_gap_is_allowed_as_the_seek_is(
    broker: BrokerServer, sinks: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    sinks.sinks.purge("orders", partition=0)
    words = ["subscription", "seek", "orders", "audit", "--to", "0=2", "-e", broker.endpoint]

    assert run([*words, "--dry-run"]) == ExitCode.OK
    assert run([*words, "--yes"]) == ExitCode.OK


def test_a_dry_run_of_a_seek_to_a_trimmed_offset_or_the_earliest_is_allowed(
    broker: BrokerServer, sinks: Client
) -> None:
    words = ["sink", "seek", "trimmed", "--to", "0", "--or-earliest", "--dry-run", "-e", broker.endpoint]

    assert run(words) == ExitCode.OK
