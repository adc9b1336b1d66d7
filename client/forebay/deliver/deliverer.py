"""Runs a deliverer: reads a subscription, hands deliveries to the lanes, stops in good order.

Three parties meet in `run`: a thread that reads the subscription, the lanes that send, and whoever calls
`stop`. They speak through one queue, which may be written to from a signal handler. Nothing is acked that
the target has not taken, so whatever is left at a stop comes again at the next start.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event
from typing import TYPE_CHECKING

from forebay.deliver.courier import Courier
from forebay.deliver.lanes import Lanes
from forebay.deliver.settings import DelivererSettings
from forebay.deliver.targets.target import TargetContext
from forebay.deliver.telemetry import Instruments

if TYPE_CHECKING:
    from forebay.deliver.batch import BatchLimits
    from forebay.deliver.source import Source, SourceClient
    from forebay.deliver.targets.target import Target

_log = logging.getLogger("forebay.deliver")


@dataclass(frozen=True, slots=True)
class _Stop:
    """Somebody asked for the end."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """The subscription ended, or something failed."""

    error: BaseException | None


class Deliverer:
    """Delivers one subscription of a sink to one target, until told to stop."""

    def __init__(
        self,
        client: SourceClient,
        sink: str,
        target: Target,
        *,
        resend_to: Target | None = None,
        settings: DelivererSettings | None = None,
        instruments: Instruments | None = None,
    ) -> None:
        """Deliver ``sink`` to ``target``; records that were delivered before go to ``resend_to``, if there is one."""
        self._client = client
        self._sink = sink
        self._target = target
        self._resend_to = resend_to
        self._settings = settings or DelivererSettings()
        self._instruments = instruments or Instruments(sink, self._settings.subscription)
        self._events: SimpleQueue[_Stop | _Ended] = SimpleQueue()
        self._stopping = False
        self._stopped = Event()

    def run(self) -> None:
        """Deliver until `stop` is called; blocks, and may be called once.

        An unreachable broker or target is waited for. Raises what ends it all the same: a `ForebayError`
        that no waiting mends (such as a sink that does not exist), what the target's ``open`` raised, or
        `TargetGone`.
        """
        settings = self._settings
        try:
            limits = self._open(self._target)
            with ExitStack() as opened:
                opened.callback(self._target.close)
                resend_to = None
                if self._resend_to is not None:
                    resend_to = (self._resend_to, self._open(self._resend_to))
                    opened.callback(self._resend_to.close)
                courier = Courier(
                    self._sink,
                    self._target,
                    limits,
                    resend_to=resend_to,
                    retry_delay_max_s=settings.retry_delay_max_s,
                    instruments=self._instruments,
                    stopping=lambda: self._stopping,
                )
                self._run(courier)
        finally:
            self._stopped.set()

    def _open(self, target: Target) -> BatchLimits:
        settings = self._settings
        tighter = target.open(TargetContext(self._sink, settings.subscription, settings.concurrency))
        return settings.batch.within(tighter) if tighter else settings.batch

    def stop(self, *, wait_s: float | None = 0.0) -> bool:
        """Ask `run` to end once the sends under way are settled, and return whether it has.

        From any thread or signal handler, any number of times. Waits up to ``wait_s`` seconds, ``None``
        without bound; never wait in the thread that runs it.
        """
        self._stopping = True
        self._events.put(_Stop())
        return self._stopped.wait(wait_s) if wait_s != 0.0 else False

    def _run(self, courier: Courier) -> None:
        settings = self._settings
        source = self._client.subscriber(
            self._sink,
            subscription=settings.subscription,
            consumer_id=settings.consumer_id,
            credit_records=settings.credit_records,
            credit_bytes=settings.credit_bytes,
        )
        lanes = Lanes(
            courier.deliver,
            threads=settings.concurrency,
            on_failure=lambda error: self._events.put(_Ended(error)),
        )
        reader = ThreadPoolExecutor(1, thread_name_prefix="forebay-deliver-read")
        reading = reader.submit(self._read, source, lanes)
        reading.add_done_callback(lambda ended: self._events.put(_Ended(ended.exception())))
        _log.info("deliverer started sink=%s subscription=%s", self._sink, settings.subscription)
        try:
            event = self._events.get()
        finally:
            self._stopping = True
            finished = lanes.drain(settings.stop_grace_s)
            source.close()
            lanes.close()
            reader.shutdown()
            _log.info("deliverer stopped sink=%s finished=%s", self._sink, finished)
        if isinstance(event, _Ended) and event.error is not None:
            raise event.error

    @staticmethod
    def _read(source: Source, lanes: Lanes) -> None:
        for delivery in source:
            lanes.put(delivery)
