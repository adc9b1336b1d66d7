"""Checks of the broker that the commands use: answer, version, clock, disk, memory, failures."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from forebay.cli.doctor.check import Check, Grade
from forebay.cli.options import connect
from forebay.cli.output import bytes_text, seconds_text
from forebay.cli.report import CommandFailed, sentence
from forebay.packaging import NAME

if TYPE_CHECKING:
    from forebay.client import BrokerInfo, Client

SKEW_WARNING_S: Final = 1.0
"""Difference of the clocks from which on times in commands and logs mislead."""

SKEW_PROBLEM_S: Final = 60.0
"""Difference from which on ages, retention times and certificates are judged wrongly."""

DISK_FREE_MIN: Final = 1 << 30
"""Free bytes of a named data directory, whose reserve is not known."""


def broker_checks(endpoint: str, data_dir: Path | None) -> Iterator[Check]:
    """Yield the checks of each broker, and of ``data_dir`` on this machine."""
    from forebay.client.errors import ForebayError

    with ExitStack() as opened:
        try:
            client = opened.enter_context(connect(endpoint))
        except CommandFailed as error:
            yield Check("broker", Grade.PROBLEM, str(error), error.advice)
        except ForebayError as error:
            yield Check("broker", Grade.PROBLEM, _text(error), error.advice)
        else:
            for each in client.endpoints:
                try:
                    info, skew_s, uncertain_s = _asked(client, each)
                except ForebayError as error:
                    yield Check("broker", Grade.PROBLEM, f"{each}: {_text(error)}", error.advice)
                    continue
                yield from answer_checks(each, info)
                if skew_s is not None:
                    yield clock_check(skew_s, uncertain_s)
            yield from shard_checks(client)
    if data_dir is not None:
        yield directory_check(data_dir, DISK_FREE_MIN)


def shard_checks(client: Client) -> Iterator[Check]:
    """Yield the checks of a fleet: its owners answer, and no sink has the name of one in another shard."""
    from forebay.client.errors import ForebayError

    try:
        shards = client.shards.list()
        repeated = client.shards.repeated()
    except ForebayError as error:
        yield Check("shards", Grade.WARNING, _text(error), "see forebay shard list; start a broker of each shard")
        return
    for one in repeated:
        yield Check("shards", Grade.PROBLEM, str(one), one.advice)
    if len(shards) > 1 and not repeated:
        yield Check("shards", Grade.OK, f"{len(shards)} shards, no sink is in two of them")


def _asked(client: Client, endpoint: str) -> tuple[BrokerInfo, float | None, float]:
    """Return the answer of a broker, the difference of its clock from this one, and how exact that is."""
    before, began = datetime.now(UTC), monotonic()
    info = client.info(endpoint)
    took_s = monotonic() - began
    skew_s = None if info.now is None else (info.now - before).total_seconds() - took_s / 2
    return info, skew_s, took_s / 2


def answer_checks(endpoint: str, info: BrokerInfo) -> Iterator[Check]:
    """Yield the checks of a broker's answer: state, version, warnings, disk, journal, memory and failures."""
    mine = version(NAME)
    state = info.state.lower()
    if state != "serving":
        yield Check("broker", Grade.PROBLEM, f"{endpoint} is {state}: {info.state_reason}", "see its log; restart it")
    else:
        yield Check("broker", Grade.OK, f"{endpoint} serves, version {info.version}")
    if info.version != mine:
        advice = "use the same version, so that errors and settings of one are known to the other"
        yield Check("versions", Grade.WARNING, f"the broker is {info.version}, this is {mine}", advice)
    for warning in info.warnings:
        yield Check("broker", Grade.WARNING, warning, "see forebay info")
    yield from _of_resources(endpoint, info)
    yield from _of_failures(endpoint, info)


def _of_resources(endpoint: str, info: BrokerInfo) -> Iterator[Check]:
    """Yield the checks of disk and memory, as the broker reports them: they are those of its machine."""
    if info.now is None:
        return  # an older broker, which reports neither
    if info.data_dir:
        yield disk_check(f"{info.data_dir} of {endpoint}", info.disk_free_bytes, info.disk_reserve_bytes)
    if info.journal_outage:
        text = f"{endpoint} waits for its journal: {info.journal_outage}: {info.journal_outage_cause}"
        advice = (
            "make room for the journal" if info.journal_outage == "JOURNAL_FULL" else "see whether its journal is up"
        )
        yield Check("journal", Grade.PROBLEM, text, advice)
    used, limit, watermark = info.memory_used_bytes, info.memory_limit_bytes, info.memory_high_watermark
    if limit and used > limit * watermark:
        text = f"{endpoint} uses {bytes_text(used)} of {bytes_text(limit)} memory, and restricts above {watermark:.0%}"
        yield Check("memory", Grade.WARNING, text, "give the broker more memory, or lower its bounds")


def _of_failures(endpoint: str, info: BrokerInfo) -> Iterator[Check]:
    for partition in info.unreadable:
        yield Check("reads", Grade.PROBLEM, f"{endpoint}: reads fail: {partition}", "check the disk of the broker")
    for failure in info.background_failures:
        yield Check("background", Grade.WARNING, f"{endpoint}: background work failed: {failure}", "see its log")
    if info.realtime_failure:
        text = f"{endpoint} reads the store, realtime failed: {info.realtime_failure}"
        yield Check("realtime", Grade.WARNING, text, "see its log; it is tried again")


def clock_check(skew_s: float, uncertain_s: float) -> Check:
    """Return the check of the difference between the clocks."""
    off_s = max(0.0, abs(skew_s) - uncertain_s)
    side = "ahead of" if skew_s > 0 else "behind"
    text = f"the clock of the broker is {seconds_text(abs(skew_s))} {side} this one"
    if off_s <= SKEW_WARNING_S:
        return Check("clock", Grade.OK, text)
    advice = "synchronize both clocks (chrony, systemd-timesyncd)"
    return Check("clock", Grade.WARNING if off_s <= SKEW_PROBLEM_S else Grade.PROBLEM, text, advice)


def directory_check(directory: Path, reserve: int) -> Check:
    """Return the check of the device of a data directory on this machine."""
    try:
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return Check("disk", Grade.PROBLEM, f"{directory}: {error.strerror}", "name another with --data-dir")
    return disk_check(str(directory), free, reserve)


def disk_check(directory: str, free: int, reserve: int) -> Check:
    """Return the check of the free bytes of a data directory's device."""
    text = f"{bytes_text(free)} are free for {directory}, {bytes_text(reserve)} are reserved"
    if free <= reserve:
        return Check("disk", Grade.PROBLEM, text, "free space: the broker rejects appends with DISK_FULL")
    if free <= 2 * reserve:
        return Check("disk", Grade.WARNING, text, "free space soon")
    return Check("disk", Grade.OK, text)


def _text(error: BaseException) -> str:
    return sentence(error).removeprefix("forebay: ")
