"""Deliveries of one process: started, restarted after a failure, replaced when their plan changes.

The thread of `Fleet.run` owns all state. Deliverers, which have threads of their own, and signal handlers only put
events into its queue. A failed delivery is restarted after a delay, and does not affect the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from forebay.deliver.fleet.plan import DELIVERIES_MAX, DeliveryPlan, Plan
from forebay.text import visible

_log = logging.getLogger("forebay.run")

RESTART_DELAYS_S: Final = (1.0, 5.0, 15.0, 60.0)
"""Delay before a restart after 1, 2, ... consecutive failures; the last value applies from then on."""

HEALTHY_S: Final = 60.0
"""Running time after which the earlier failures of a delivery no longer count."""


class Runnable(Protocol):
    """Part of the deliverer that the fleet uses."""

    def run(self) -> None:
        """Deliver until `stop`. An exception counts as a failure."""

    def stop(self) -> bool:
        """Stop `run` gracefully, without waiting for it."""


@dataclass(frozen=True, slots=True)
class _Stop:
    """Request to stop all deliveries."""


@dataclass(frozen=True, slots=True)
class _Reload:
    """Request to read the plan again."""


class _Delivery:
    """Delivery that is running or stopping."""

    def __init__(self, plan: DeliveryPlan, begun: float, failures: int) -> None:
        self.plan = plan
        self.begun = begun
        self.failures = failures
        """Consecutive failures before this start."""
        self.is_stopping = False
        self._deliverer: Runnable | None = None

    def run(self, make: Callable[[DeliveryPlan], Runnable]) -> None:
        """Build the deliverer and deliver until `stop`, on a thread of this delivery."""
        self._deliverer = make(self.plan)
        if self.is_stopping:  # `stop` was called before there was a deliverer
            return
        self._deliverer.run()

    def stop(self) -> None:
        """Stop the deliverer gracefully, without waiting for it."""
        self.is_stopping = True
        if self._deliverer is not None:
            self._deliverer.stop()


@dataclass(frozen=True, slots=True)
class _Ended:
    """End of a delivery."""

    delivery: _Delivery
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class _Restart:
    """Scheduled restart of a failed delivery."""

    plan: DeliveryPlan
    due: float
    failures: int


class Fleet:
    """Deliveries of a plan. `stop` and `reload` may be called from any thread or signal handler."""

    def __init__(
        self,
        load: Callable[[], Plan],
        make: Callable[[DeliveryPlan], Runnable],
        *,
        clock: Callable[[], float] = time.monotonic,
        restart_delays_s: tuple[float, ...] = RESTART_DELAYS_S,
    ) -> None:
        """``load`` reads the plan; ``make`` builds a deliverer; its exceptions are failures of the delivery."""
        self._load, self._make, self._clock = load, make, clock
        self._restart_delays_s = restart_delays_s
        self._events: SimpleQueue[_Stop | _Reload | _Ended] = SimpleQueue()
        self._wanted: dict[str, DeliveryPlan] = {}
        """Plans by delivery name; empty once a stop was requested."""
        self._running: dict[str, _Delivery] = {}
        self._restarts: dict[str, _Restart] = {}
        self._threads = ThreadPoolExecutor(DELIVERIES_MAX, thread_name_prefix="forebay-run")

    def stop(self) -> None:
        """Stop `run`, which ends once the sends in progress are settled."""
        self._events.put(_Stop())

    def reload(self) -> None:
        """Read the plan again; start added deliveries, stop removed ones, replace changed ones."""
        self._events.put(_Reload())

    def run(self) -> None:
        """Deliver until `stop`. Raises the error of the first load of the plan."""
        self._apply(self._load())
        try:
            stopping = False
            while not stopping or self._running:
                match self._next():
                    case _Stop():
                        stopping = True
                        self._apply(Plan({}))
                    case _Reload() if not stopping:
                        self._reload()
                    case _Ended() as ended:
                        self._ended(ended)
                self._start_due()
        finally:
            for delivery in self._running.values():
                delivery.stop()
            self._threads.shutdown()

    def _next(self) -> _Stop | _Reload | _Ended | None:
        """Return the next event, or None when a restart is due."""
        due = min((restart.due for restart in self._restarts.values()), default=None)
        try:
            return self._events.get(timeout=None if due is None else max(0.0, due - self._clock()))
        except Empty:
            return None

    def _reload(self) -> None:
        try:
            plan = self._load()
        except Exception as error:  # noqa: BLE001 - it may come from user code, such as a target's module
            _log.error("deliveries were not reloaded and continue unchanged: %s", visible(_text(error)))
            return
        self._apply(plan)

    def _apply(self, plan: Plan) -> None:
        before, after = self._wanted, dict(plan.deliveries)
        added, removed = after.keys() - before.keys(), before.keys() - after.keys()
        changed = {name for name in after.keys() & before.keys() if after[name] != before[name]}
        self._wanted = after
        for name in removed | changed:
            self._restarts.pop(name, None)
            if name in self._running:
                self._running[name].stop()
        for name in added | changed:
            if name not in self._running:  # otherwise it is restarted when it has stopped
                self._start(after[name], 0)
        if before and after:
            _log.info(
                "deliveries were reloaded added=%d removed=%d changed=%d unchanged=%d",
                len(added),
                len(removed),
                len(changed),
                len(after) - len(added) - len(changed),
            )

    def _start(self, plan: DeliveryPlan, failures: int) -> None:
        delivery = _Delivery(plan, self._clock(), failures)
        self._running[plan.name] = delivery
        future: Future[None] = self._threads.submit(delivery.run, self._make)
        future.add_done_callback(lambda ended: self._events.put(_Ended(delivery, ended.exception())))

    def _start_due(self) -> None:
        now = self._clock()
        for name, restart in list(self._restarts.items()):
            if restart.due <= now:
                del self._restarts[name]
                self._start(restart.plan, restart.failures)

    def _ended(self, ended: _Ended) -> None:
        plan = ended.delivery.plan
        del self._running[plan.name]
        wanted = self._wanted.get(plan.name)
        if ended.error is not None:
            _log.error("delivery failed name=%s sink=%s: %s", plan.name, plan.sink, visible(_text(ended.error)))
        if wanted is None:
            _log.info("delivery stopped name=%s", plan.name)
            return
        if ended.delivery.is_stopping:  # it was replaced
            self._start(wanted, 0)
            return
        now = self._clock()
        failures = 1 if now - ended.delivery.begun >= HEALTHY_S else ended.delivery.failures + 1
        delay_s = self._restart_delays_s[min(failures, len(self._restart_delays_s)) - 1]
        _log.warning("delivery restart was scheduled name=%s in_s=%g failures=%d", plan.name, delay_s, failures)
        self._restarts[plan.name] = _Restart(plan, now + delay_s, failures)


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
