"""Deliverer: reads a subscription, distributes deliveries to threads, stops gracefully.

Three parties meet in `run`: a thread that reads the subscription, the threads that send, and the caller of `stop`. They
communicate through one queue, which is safe to use from a signal handler. Only delivered records are acked, so that all
others are redelivered at the next start.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event
from typing import Final

from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.dispatcher import Dispatcher
from forebay.deliver.health import TargetHealth, Totals
from forebay.deliver.partition_executor import PartitionExecutor
from forebay.deliver.progress import Progress
from forebay.deliver.settings import DelivererSettings
from forebay.deliver.source import Source, SourceClient
from forebay.deliver.targets.target import Target, TargetContext
from forebay.deliver.telemetry import Instruments
from forebay.packaging import own_version

_log = logging.getLogger("forebay.deliver")

EXTEND_S: Final = 0.25
"""Interval at which deadlines of waiting deliveries are checked."""


@dataclass(frozen=True, slots=True)
class _Stop:
    """Request to stop."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """End of the subscription, or a failure."""

    error: BaseException | None


class Deliverer:
    """Delivers one subscription of a sink to one target, until stopped."""

    def __init__(
        self,
        client: SourceClient,
        sink: str,
        target: Target,
        *,
        resend_to: Target | None = None,
        settings: DelivererSettings | None = None,
        instruments: Instruments | None = None,
        health: TargetHealth | None = None,
    ) -> None:
        """Deliver ``sink`` to ``target``, and redelivered records to ``resend_to`` if it is given.

        ``health`` continues the counts of an earlier deliverer.
        """
        self._client = client
        self._sink = sink
        self._target = target
        self._resend_to = resend_to
        self._settings = settings or DelivererSettings()
        self._instruments = instruments or Instruments(sink, self._settings.subscription)
        self._health = health or TargetHealth(sink, self._settings.subscription)
        self._events: SimpleQueue[_Stop | _Ended] = SimpleQueue()
        self._stopping = False
        self._stopped = Event()

    @property
    def totals(self) -> Totals:
        """Counts of what was delivered, failed and was rejected."""
        return self._health.totals

    def run(self) -> None:
        """Deliver until `stop` is called; blocks, and may be called only once.

        An unavailable broker or target is retried. Raises a permanent `ForebayError` (for example if the sink does not
        exist), the exception of the target's ``open``, or `TargetClosed`.
        """
        settings = self._settings
        try:
            limits = self._open(self._target, settings.batch)
            with ExitStack() as opened:
                opened.callback(self._target.close)
                resend_to = None
                if self._resend_to is not None:
                    batch = settings.batch if settings.resend_batch is None else settings.resend_batch
                    resend_to = (self._resend_to, self._open(self._resend_to, batch))
                    opened.callback(self._resend_to.close)
                dispatcher = Dispatcher(
                    self._sink,
                    self._target,
                    limits,
                    resend_to=resend_to,
                    retry_delay_max_s=settings.retry_delay_max_s,
                    instruments=self._instruments,
                    health=self._health,
                    stopping=lambda: self._stopping,
                )
                self._run(dispatcher, settings.credit([limits] if resend_to is None else [limits, resend_to[1]]))
        finally:
            self._stopped.set()

    def _open(self, target: Target, batch: BatchLimits | None) -> BatchLimits:
        settings = self._settings
        limits = target.open(TargetContext(self._sink, settings.subscription, settings.concurrency))
        if batch is None:
            return limits or BatchLimits()
        return batch.completed() if limits is None else batch.within(limits)

    def stop(self, *, wait_s: float | None = 0.0) -> bool:
        """Stop `run` once the sends in progress are settled; return True if it has ended.

        May be called from any thread or signal handler, repeatedly. Waits up to ``wait_s`` seconds, without limit if it
        is ``None``; never wait in the thread that runs `run`.
        """
        self._stopping = True
        self._events.put(_Stop())
        return self._stopped.wait(wait_s) if wait_s != 0.0 else False

    def _run(self, dispatcher: Dispatcher, credit: tuple[int, int]) -> None:
        settings = self._settings
        credit_records, credit_bytes = credit
        shown = settings.target or type(self._target).__name__
        source = self._client.subscriber(
            self._sink,
            subscription=settings.subscription,
            consumer_id=settings.consumer_id,
            credit_records=credit_records,
            credit_bytes=credit_bytes,
            program=f"forebay-deliver/{own_version()} {ascii(shown)[1:-1]}",
        )
        executor = PartitionExecutor(
            dispatcher.deliver,
            threads=settings.concurrency,
            on_failure=lambda error: self._events.put(_Ended(error)),
            limits_of=dispatcher.limits_of,
            credit_records=credit_records,
            credit_bytes=credit_bytes,
        )
        reader = ThreadPoolExecutor(1, thread_name_prefix="forebay-deliver-read")
        reading = reader.submit(self._read, source, executor)
        reading.add_done_callback(lambda ended: self._events.put(_Ended(ended.exception())))
        _log.info("deliverer started sink=%s subscription=%s", self._sink, settings.subscription)
        try:
            event = self._await_end(executor, dispatcher)
        finally:
            self._stopping = True
            finished = executor.drain(settings.stop_grace_s)
            source.close()
            executor.close()
            reader.shutdown()
            totals = self._health.totals
            _log.info(
                "deliverer stopped sink=%s subscription=%s finished=%s delivered=%d failed_attempts=%d rejected=%d",
                *(self._sink, settings.subscription, finished),
                *(totals.delivered, totals.failures, totals.rejected),
            )
        if isinstance(event, _Ended) and event.error is not None:
            raise event.error

    def _await_end(self, executor: PartitionExecutor, dispatcher: Dispatcher) -> _Stop | _Ended:
        """Return the first event; until then waiting deliveries keep their deadlines.

        When no send ends for long, they are left to expire: others should get the records.
        """
        progress = Progress()
        while True:
            with suppress(Empty):
                return self._events.get(timeout=EXTEND_S)
            if not progress.is_stuck(self._health.totals, is_idle=executor.is_idle):
                executor.extend_waiting()
                dispatcher.extend_waiting()

    @staticmethod
    def _read(source: Source, executor: PartitionExecutor) -> None:
        for delivery in source:
            executor.put(delivery)
