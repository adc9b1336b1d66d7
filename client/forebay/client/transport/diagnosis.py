"""Diagnosis of endpoints that cannot be reached: a finding becomes a verdict once it has lasted.

One look proves little: certificates are replaced, brokers restart, another process may have the port for a moment. A
finding is final when every look since its first one agreed, for long enough; any other finding starts over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forebay.client.transport.handshake import FINAL, Finding, Probed

LOOKS_MIN: Final = 2
"""Looks that have to agree."""

UNREACHED_PATIENCE_S: Final = 0.5
"""Patience with a broker that was never reached: most likely a setting is wrong, and a person waits."""


@dataclass(slots=True)
class _Endpoint:
    reached: bool = False
    """Some call got through to it, with the same settings."""

    finding: Finding = Finding.NOTHING
    since: float = 0.0
    looks: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a diagnosis."""

    text: str
    """For people; empty for nothing."""

    is_final: bool
    """Trying again does not help."""


class Diagnosis:
    """Findings by endpoint. Usable from several threads."""

    def __init__(
        self,
        look: Callable[[str], Probed],
        *,
        patience_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._look = look
        self._patience_s = patience_s
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        """Protects the endpoints; nobody waits under it."""
        self._endpoints: dict[str, _Endpoint] = {}

    def reached(self, endpoint: str) -> None:
        """Note that a call got through: what was found before is void."""
        state = self._endpoints.get(endpoint)
        if state is not None and state.reached and not state.looks:
            return  # as with nearly every call: not worth the lock
        with self._lock:
            self._endpoints[endpoint] = _Endpoint(reached=True)

    def of(self, endpoint: str) -> Verdict:
        """Return the verdict after one look, or two at an endpoint that was never reached: it takes that long."""
        verdict, looks_again = self._judged(endpoint)
        if looks_again:
            self._sleep(UNREACHED_PATIENCE_S)
            verdict, _ = self._judged(endpoint)
        return verdict

    def _judged(self, endpoint: str) -> tuple[Verdict, bool]:
        found = self._look(endpoint)
        now = self._clock()
        with self._lock:
            state = self._endpoints.setdefault(endpoint, _Endpoint())
            if found.finding is not state.finding:
                state.finding, state.since, state.looks = found.finding, now, 0
            state.looks += 1
            if not FINAL[found.finding]:
                return Verdict(found.text, is_final=False), False
            patience_s = self._patience_s if state.reached else UNREACHED_PATIENCE_S
            is_final = state.looks >= LOOKS_MIN and now - state.since >= patience_s
            return Verdict(found.text, is_final=is_final), not is_final and not state.reached
