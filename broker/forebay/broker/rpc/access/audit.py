"""Audit log: managing calls with their outcome, and refused calls.

One line per managing call. Refusals of one kind are one line at once and one line per interval with their number,
so a caller that retries cannot fill the disk. A line of text has foreign text as an ASCII literal (``%a``), so that it
cannot be forged; the fields of the event are the values themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.errors import BrokerError

AUDIT_LOGGER: Final = "forebay.audit"
INTERVAL_S: Final = 10.0
KINDS_MAX: Final = 100
"""Kinds of refusals with a line of their own in one interval."""
SHOWN_MAX: Final = 140
"""Characters of one foreign text that are logged."""

_log: Final = logging.getLogger(AUDIT_LOGGER)


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller as the log names it."""

    principal: str
    peer: str
    """Address, as gRPC writes it."""


class Audit:
    """Writer of the audit log. Used on one loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._since_s = 0.0
        self._refusals: dict[tuple[str, str, str], int] = {}

    def managed(self, caller: Caller, method: str, sinks: Sequence[str], outcome: str) -> None:
        """Log an admitted managing call. ``outcome`` is `OK` or the code of its status."""
        _log.info(
            "call principal=%a method=%s sinks=%a outcome=%s peer=%s",
            _shown(caller.principal),
            method,
            _shown(",".join(sinks)),
            outcome,
            caller.peer,
        )

    def refused(self, caller: Caller, method: str, error: BrokerError) -> None:
        """Log a refused call, or count it if its kind has a line already."""
        self._begin_interval()
        kind = (caller.principal, method, error.reason.name)
        counted = kind if kind in self._refusals or len(self._refusals) < KINDS_MAX else ("", "", "")
        first = counted not in self._refusals
        self._refusals[counted] = self._refusals.get(counted, 0) + 1
        if first:
            _log.warning(
                "refused reason=%s principal=%a method=%s detail=%a peer=%s",
                error.reason.name,
                _shown(caller.principal),
                method,
                _shown(str(error)),
                caller.peer,
            )

    def _begin_interval(self) -> None:
        now_s = self._clock()
        if now_s - self._since_s < INTERVAL_S:
            return
        for (principal, method, reason), count in self._refusals.items():
            if count > 1:
                _log.warning(
                    "refused again count=%d reason=%s principal=%a method=%s",
                    count - 1,
                    reason or "various",
                    _shown(principal),
                    method or "various",
                )
        self._refusals.clear()
        self._since_s = now_s


def _shown(text: str) -> str:
    return text[:SHOWN_MAX]
