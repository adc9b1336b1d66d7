"""Diagnosis of endpoints that cannot be reached: a finding becomes final when it persists.

One probe proves little: certificates are rotated, brokers restart, and another process may use the port briefly. A
finding is final when every probe since its first occurrence agreed, for long enough; any other finding restarts the
diagnosis.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from forebay.client.transport.handshake import FINAL, Finding, Probed

PROBES_MIN: Final = 2
"""Minimum number of probes that must agree."""

UNREACHED_PATIENCE_S: Final = 0.5
"""Time limit for a broker that was never reached: a wrong setting is likely, and a user is waiting."""


@dataclass(slots=True)
class _Endpoint:
    reached: bool = False
    """A call with the same settings has reached the endpoint."""

    finding: Finding = Finding.NOTHING
    since: float = 0.0
    probes: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a diagnosis."""

    text: str
    """Text for users; empty for no finding."""

    is_final: bool
    """True if a retry does not help."""


class Diagnosis:
    """Findings by endpoint. Thread-safe."""

    def __init__(
        self,
        probe: Callable[[str], Awaitable[Probed]],
        *,
        patience_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._probe = probe
        self._patience_s = patience_s
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        """Protects the endpoints; not held while waiting."""
        self._endpoints: dict[str, _Endpoint] = {}

    def reached(self, endpoint: str) -> None:
        """Record that a call reached the endpoint; earlier findings are discarded."""
        state = self._endpoints.get(endpoint)
        if state is not None and state.reached and not state.probes:
            return  # the common case, decided without the lock
        with self._lock:
            self._endpoints[endpoint] = _Endpoint(reached=True)

    async def of(self, endpoint: str) -> Verdict:
        """Return the verdict after one probe, or after two for an endpoint that was never reached."""
        verdict, probes_again = await self._probe_once(endpoint)
        if probes_again:
            await self._sleep(UNREACHED_PATIENCE_S)
            verdict, _ = await self._probe_once(endpoint)
        return verdict

    async def _probe_once(self, endpoint: str) -> tuple[Verdict, bool]:
        found = await self._probe(endpoint)
        now = self._clock()
        with self._lock:
            state = self._endpoints.setdefault(endpoint, _Endpoint())
            if found.finding is not state.finding:
                state.finding, state.since, state.probes = found.finding, now, 0
            state.probes += 1
            if not FINAL[found.finding]:
                return Verdict(found.text, is_final=False), False
            patience_s = self._patience_s if state.reached else UNREACHED_PATIENCE_S
            is_final = state.probes >= PROBES_MIN and now - state.since >= patience_s
            return Verdict(found.text, is_final=is_final), not is_final and not state.reached
