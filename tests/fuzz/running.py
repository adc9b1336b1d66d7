"""Runs the fuzzer against a real ``forebay serve``, and judges what it left behind."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc.aio
import psutil

from forebay.client import Client, ClientSettings, ForebayError, Record, RetryPolicy
from tests.fuzz import pages
from tests.fuzz.calls import Caller
from tests.fuzz.chance import SINKS, SUBSCRIPTIONS, Chance, Known
from tests.fuzz.report import Report
from tests.support.processes.broker import BrokerEnded, BrokerProcess, serve_command
from tests.support.rules.services import METHODS

WORKERS: Final = 16
RENEWED_S: Final = 20.0
"""The sinks are deleted and recreated so often: what the broker keeps on purpose is no growth."""
SAMPLED_S: Final = 1.0
_SINKS: Final[dict[str, dict[str, Any]]] = {
    "disk": {"partitions": 2},
    "relaxed": {
        "partitions": 2,
        "ordering": "RELAXED",
        "max_attempts": 3,
        "retry_backoff_min_s": 0.001,
        "retry_backoff_max_s": 0.01,
    },
    "spill": {"buffer_mode": "SPILL", "memory_cache_threshold": 500, "buffer_page_size": 16},
    "memory": {"buffer_mode": "MEMORY", "memory_cache_threshold": 300, "buffer_page_size": 16},
    "no-dlq": {"dlq": False},
    "drop": {"overflow": "DROP_OLDEST", "max_total_bytes": 4_096, "partitions": 2},
    "rows": {"partitions": 2},
    "no-fsync": {"fsync": False},
}
_CHANNEL: Final = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
]
_PATIENT: Final = ClientSettings(call_timeout_s=60.0, retry=RetryPolicy(tries_max=3))


@dataclass(frozen=True, slots=True)
class Options:
    """Duration, seed and folder of a run."""

    seconds: float
    seed: int
    directory: Path
    say: Callable[[str], None]
    """Receives the progress report, line by line."""


def run(options: Options) -> Report:
    """Fuzz a broker; every finding is in the report."""
    options.say(f"seed {options.seed}")
    report = Report(options.seed)
    store = options.directory / "store"
    with serve_command(store) as broker:
        endpoint = broker.ready()
        asyncio.run(_fuzz(options, endpoint, psutil.Process(broker.pid), report))
        _look_at_what_is_left(broker, endpoint, report)
        log = broker.log
    _judge_log(log, report)
    with serve_command(store) as again:
        try:
            _look_at_what_is_left(again, again.ready(), report)
        except BrokerEnded as failure:
            report.find("the broker did not start again", str(failure))
    report.judge_growth()
    return report


async def _fuzz(options: Options, endpoint: str, process: psutil.Process, report: Report) -> None:
    known, until = Known(), time.monotonic() + options.seconds
    known.schemas.append(pages.schema())
    await asyncio.to_thread(_renew, endpoint)
    await asyncio.to_thread(_load_decoder, endpoint)
    work = [_work(endpoint, Chance(f"{options.seed}-{number}", known), until, report) for number in range(WORKERS)]
    async with asyncio.TaskGroup() as group:
        helpers = [group.create_task(_sample(process, report)), group.create_task(_keep(endpoint, report))]
        workers = [group.create_task(each) for each in work]
        await asyncio.wait(workers)
        for helper in helpers:
            helper.cancel()
    await asyncio.to_thread(_renew, endpoint)
    options.say(f"{report.total} calls, {len(report.findings)} findings")


async def _work(endpoint: str, chance: Chance, until: float, report: Report) -> None:
    found = list(METHODS.values())
    while time.monotonic() < until:
        async with grpc.aio.insecure_channel(endpoint, options=_CHANNEL) as channel:
            caller = Caller(channel, found, chance)
            for _ in range(200):
                if time.monotonic() >= until:
                    break
                report.add(await caller.call())


async def _sample(process: psutil.Process, report: Report) -> None:
    while True:
        try:
            report.private_bytes.append(await asyncio.to_thread(lambda: process.memory_full_info().uss))
            report.descriptors.append(process.num_fds())
        except psutil.Error:
            return  # it has ended, which the calls tell
        await asyncio.sleep(SAMPLED_S)


async def _keep(endpoint: str, report: Report) -> None:
    while True:
        await asyncio.sleep(RENEWED_S)
        try:
            await asyncio.to_thread(_renew, endpoint)
        except ForebayError as failure:
            report.find("the sinks were not recreated", str(failure))


def _renew(endpoint: str) -> None:
    """Delete all sinks, and make those that the calls name, with something in them."""
    with Client(endpoint, settings=_PATIENT) as client:
        for sink in client.sinks.list():
            with suppress(ForebayError):  # others delete and make them too
                client.sinks.delete(sink.name, force=True, dead_letters=True)
        for name, settings in _SINKS.items():
            with suppress(ForebayError):
                client.sinks.create(name, **settings)
                for subscription in SUBSCRIPTIONS[2:]:
                    client.subscriptions.create(name, subscription)
                _fill(client, name)


def _fill(client: Client, sink: str) -> None:
    if sink == "rows":
        client.schemas.register(sink, pages.schema(), previous=0)
    else:
        records = [Record(b"v%d" % number, key=b"k%d" % number, headers={"h": "x"}) for number in range(50)]
        client.publish(sink, records)
    if sink in {"disk", "relaxed"}:  # dead letters, and their sink
        with client.subscriber(sink) as subscriber:
            delivery = subscriber.take(5)
            if delivery is not None and delivery.gap is None:
                delivery.dead_letter("no", offset=delivery.first_offset, wait=True)


def _load_decoder(endpoint: str) -> None:
    """Have a page of rows decoded: the first one loads the decoder, up to a hundred MiB that are no growth."""
    with Client(endpoint, settings=_PATIENT) as client:
        with client.publisher("rows") as publisher:
            publisher.send_page(pages.readable_page(), partition=0).result()
        [shown, *_] = client.peek("rows")
    assert shown.format == "json", shown


def _look_at_what_is_left(broker: BrokerProcess, endpoint: str, report: Report) -> None:
    """See that it answers, that every account balances, and that it stops."""
    with Client(endpoint, settings=_PATIENT) as client:
        try:
            names: Sequence[str] = [sink.name for sink in client.sinks.list()]
            unbalanced = [name for name in names if not client.sinks.stats(name).identity_ok]
        except ForebayError as failure:
            report.find("the broker did not answer in the end", str(failure))
            return
    if unbalanced:
        report.find("accounts did not balance", ", ".join(unbalanced))
    try:
        code = broker.terminate(60)
    except BrokerEnded as failure:
        report.find("the broker did not stop", str(failure))
        return
    if code != 0:
        report.find("the broker ended with an error", str(code))


def _judge_log(log: Path, report: Report) -> None:
    text = log.read_text(errors="replace")
    at = text.find("Traceback (most recent call last)")
    if at >= 0:
        report.find("a traceback was logged", text[max(0, at - 300) : at + 4_000])
    for found in re.finditer(r"^.* (ERROR|CRITICAL) .*$", text, re.MULTILINE):
        report.find(f"{found[1]} was logged", found[0][:500])


assert set(_SINKS) <= set(SINKS), "sinks that no call would name"
