"""Execution of checks against one broker, within a time limit, and the result of each."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import grpc

from forebay.client import ClientSettings
from forebay.contract.check import Check
from forebay.contract.refusal import ACCESS, Refusal, of_call
from forebay.contract.sinks import PREFIX, Sinks
from forebay.contract.trial import Trial
from forebay.contract.violation import Violation
from forebay.contract.wire import OutOfTime, Wire

CHECK_S: Final = 30.0
"""Time limit of one check."""

CLEANUP_S: Final = 5.0
"""Time limit of the deletion of the sinks of one check."""


class CheckOutcome(StrEnum):
    """Outcome of a check."""

    OK = "ok"
    """The broker does what the contract states."""

    FAILED = "failed"
    """The broker answers otherwise, or not in time."""

    DENIED = "denied"
    """The caller lacks a right, so nothing is known."""

    NOT_RUN = "not run"
    """The time of the run was used up before."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a check."""

    area: str
    check: str
    outcome: CheckOutcome
    seconds: float
    detail: str = ""
    """The violation, the error or the missing right; empty if the check is OK."""


def run(
    endpoint: str,
    settings: ClientSettings,
    checks: Sequence[Check],
    *,
    time_limit_s: float,
    prefix: str = PREFIX,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Result]:
    """Yield the result of each check, in order; its sinks are deleted before its result.

    ``prefix`` begins the names of all sinks. No check begins after ``time_limit_s``, and one that runs then is ended.
    Raises `forebay.client.errors.CredentialsUnusable` for a token or certificate that cannot be used.
    """
    ends_at = clock() + time_limit_s
    unique = secrets.token_hex(4)
    wire = Wire(endpoint, settings, clock=clock)
    try:
        for check in checks:
            begun = clock()
            if begun >= ends_at:
                yield Result(check.area, check.name, CheckOutcome.NOT_RUN, 0.0, f"{time_limit_s:g} s are over")
                continue
            wire.ends_at = min(ends_at, begun + CHECK_S)
            sinks = Sinks(wire, f"{prefix}{unique}")
            try:
                outcome, detail = _outcome(check, Trial(wire, sinks, unique))
            finally:
                wire.ends_at = clock() + CLEANUP_S
                left = sinks.delete()
            if left and outcome is CheckOutcome.OK:
                name, refusal = left[0]
                denied = refusal.status in {code.name for code in ACCESS}
                outcome = CheckOutcome.DENIED if denied else CheckOutcome.FAILED
                detail = f"sink {name} was left behind: {refusal}"
            yield Result(check.area, check.name, outcome, clock() - begun, detail)
    finally:
        wire.close()


def _outcome(check: Check, trial: Trial) -> tuple[CheckOutcome, str]:
    try:
        check.act(trial)
    except Violation as violation:
        return CheckOutcome.FAILED, str(violation)
    except OutOfTime:
        return CheckOutcome.FAILED, "the time for the check is over"
    except grpc.RpcError as error:
        failed: Any = error
        refusal = of_call(failed)
        if failed.code() in ACCESS:
            return CheckOutcome.DENIED, _missing(refusal)
        if failed.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return CheckOutcome.FAILED, "no answer in time"
        return CheckOutcome.FAILED, f"a call failed: {refusal}"
    return CheckOutcome.OK, ""


def _missing(refusal: Refusal) -> str:
    right, sink = refusal.facts.get("right"), refusal.facts.get("sink")
    if right is None:
        return refusal.message
    return f"the right '{right}' is missing" + (f" to sink {sink}" if sink else "")
