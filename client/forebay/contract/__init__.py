"""Checks of the wire contract that run against any running broker.

They use the generated messages and plain gRPC calls, without the retries of the client, so that each check sees exactly
the broker's answers.
"""

from __future__ import annotations

from forebay.contract.check import Check
from forebay.contract.sinks import PREFIX
from forebay.contract.suite import CheckOutcome, Result, run
from forebay.contract.table import AREAS, CHECKS
from forebay.contract.violation import Violation

__all__ = ["AREAS", "CHECKS", "PREFIX", "Check", "CheckOutcome", "Result", "Violation", "run"]
