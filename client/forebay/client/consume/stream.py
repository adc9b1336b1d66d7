"""Deliver stream of a subscriber: opens, reads, and reconnects after a failure.

One job (``forebay-subscriber-SINK``) opens and reads; its call requests the messages to send. Both end with ``close``,
gracefully: pending answers are sent, the stream is half-closed, and the broker ends it. The broker then knows
that nothing failed. On an event loop a further job fetches the schemas of rows: no ping or result waits for them.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

import grpc

from forebay.client.admin.schemas import SchemaCache
from forebay.client.consume.in_flight import LOADED, InFlight, Loading
from forebay.client.consume.state import DeliverStreamState, SubscriptionState
from forebay.client.errors import BrokerUnavailable, ClientFault, ForebayError, PageCorrupt, ProtocolViolation
from forebay.client.replay.columns import checked_body
from forebay.client.settings import SubscriberSettings
from forebay.client.transport.channel import Channels
from forebay.client.transport.io import Job, Responses
from forebay.client.transport.reconnect import Reconnect
from forebay.client.transport.threads import fault_of
from forebay.client.values import convert, convert_sinks
from forebay.client.values.ranges import intersect
from forebay.client.values.records import Durability, Gap, StoredPage
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub

DAMAGED_MAX: Final = 5
"""Maximum of consecutive streams that end with a damaged page; then the page is damaged at its source."""

log = logging.getLogger(__name__)


class SubscribeStream:
    """Job of one subscriber."""

    def __init__(
        self,
        channels: Channels,
        opening: Callable[[], pb.DeliverOpen],
        settings: SubscriberSettings,
        state: SubscriptionState,
    ) -> None:
        self._channels = channels
        self._opening = opening
        self._sink = opening().sink
        self._schemas = SchemaCache(channels, self._sink)
        self._settings = settings
        self._state = state
        self._reconnect = Reconnect(channels.settings, clock=time.monotonic, random=random.random)
        self._endpoint = channels.endpoint_of(self._sink)
        """Broker of the present stream."""
        self._hops = 0
        """Times that the streams since the last open one have followed the sink to another shard."""
        self._call: Responses | None = None
        self._lock = threading.Lock()
        """Protects the call against a `close` between two streams."""
        self._stopped = False
        self._session = DeliverStreamState()
        self._progressed = False
        """The stream has brought deliveries or results."""
        self._damaged = 0
        """Consecutive streams that ended with one damaged page."""
        self._arriving = 0
        """Partition of the delivery that is being read."""
        self._damaged_at: tuple[int, int] | None = None
        """Partition and base offset of that page; others that arrive undamaged prove nothing about it."""
        self._job: Job | None = None
        self._loads: deque[tuple[Loading, Callable[[], Awaitable[None]]]] = deque()
        """Schemas to fetch for deliveries that have arrived: as many as the credit allows."""
        self._loader: Job | None = None

    def start(self) -> None:
        """Start the job, which connects. Idempotent."""
        if self._job is None:
            name = f"forebay-subscriber-{self._sink}"
            self._job = self._channels.io.spawn(self._run, name=name, on_fault=self._failed)

    async def stop(self, timeout_s: float) -> None:
        """End the stream and the job, gracefully if that succeeds in time. The state must be closed."""
        if self._job is None:
            return
        is_other = not self._job.is_current()
        if is_other and self._state.is_open():
            await self._job.join(timeout_s)
        self.cancel()
        if is_other:
            await self._job.join(None)
        if self._loader is not None and not self._loader.is_current():
            await self._loader.join(None)

    def cancel(self) -> None:
        """End the stream immediately. Idempotent."""
        with self._lock:
            self._stopped = True
            call = self._call
        if call is not None:
            call.cancel()
        if self._loader is not None and not self._loader.is_current():
            self._loader.cancel()

    def _failed(self, fault: ClientFault) -> None:
        """Apply an unexpected failure: end the stream and notify the waiting threads."""
        self._state.disconnected(self._session, fault)
        self.cancel()

    def _load_failed(self, fault: ClientFault) -> None:
        """Apply a failure of the fetches, unless the stream has ended: that is the reason which is kept."""
        with self._lock:
            if self._stopped:
                return
        self._failed(fault)

    async def _run(self) -> None:
        reconnect = self._reconnect
        while not self._state.is_closed():
            stream = self._session = DeliverStreamState()
            error = await self._one_stream(stream)
            if self._progressed:
                reconnect.progressed()
                self._progressed = False
            if self._state.is_closed():
                self._state.disconnected(stream, None)
                return
            if self._channels.misplaced(self._sink, self._endpoint, error, self._hops):
                self._hops += 1
                self._state.disconnected(stream, None)
                continue
            delay_s = reconnect.delay_s(error) if self._settings.reconnect else None
            self._state.disconnected(stream, error if delay_s is None else None)
            if delay_s is None:
                return
            log.log(
                reconnect.level(),
                "deliver stream broke sink=%s endpoint=%s reason=%s failures=%d delay_s=%.2f",
                self._sink,
                self._endpoint,
                error.reason,
                reconnect.failures,
                delay_s,
            )
            await self._state.pause(delay_s)

    async def _one_stream(self, stream: DeliverStreamState) -> ForebayError:
        """Run one stream to its end; return its error."""
        try:
            self._endpoint = await self._channels.locate(self._sink)
            method = self._channels.stub_at(BufferServiceStub, self._endpoint).Deliver
            call = self._channels.io.exchange(method, self._requests(stream), self._channels.opening_s)
        except ValueError as failure:  # grpc: the channel was closed
            return BrokerUnavailable(str(failure))
        except ForebayError as error:
            return error
        with self._lock:
            self._call = call
            stopped = self._stopped
        if stopped:
            call.cancel()
        try:
            async for response in call:
                await self._handle(stream, response)
        except grpc.RpcError as failure:
            return await self._channels.ended(failure, self._endpoint)
        except PageCorrupt as error:
            # Damaged in transit: unsettled records are redelivered over a new stream. If the damage repeats, it
            # occurs at its source.
            call.cancel()
            at = self._arriving, int(error.facts["base_offset"])
            self._damaged = self._damaged + 1 if at == self._damaged_at else 1
            self._damaged_at = at
            error.retryable = self._damaged < DAMAGED_MAX
            return error
        except ForebayError as error:
            call.cancel()
            return error
        finally:
            await call.join()
        return BrokerUnavailable("the broker ended the stream")

    async def _requests(self, stream: DeliverStreamState) -> AsyncGenerator[pb.DeliverRequest, None]:
        """Yield the messages to send. Runs in the call, which would swallow an exception."""
        try:
            yield pb.DeliverRequest(open=self._opening())
            while (request := await self._state.next_request(stream)) is not None:
                yield request
            if self._state.is_closed() and stream.is_open:
                yield pb.DeliverRequest(close=pb.DeliverClose())
        except Exception as error:  # noqa: BLE001 - reported to the waiting threads
            self._failed(fault_of(error))

    async def _handle(self, stream: DeliverStreamState, response: pb.DeliverResponse) -> None:
        state = self._state
        kind = response.WhichOneof("response")
        self._progressed = self._progressed or kind in {"delivery", "results"}
        if kind == "delivery":
            self._arriving = response.delivery.partition
            delivery = self._delivery(response.delivery)
            state.arrived(delivery)
            if self._damaged and any((page.partition, page.base_offset) == self._damaged_at for page in delivery.pages):
                self._damaged, self._damaged_at = 0, None
            self._channels.reached(self._endpoint)
        elif kind == "results":
            state.resolved([convert.settle_result(one) for one in response.results.results])
        elif kind == "revoked":
            state.revoked(response.revoked)
        elif kind == "ping":
            state.pinged()
        elif kind == "assignment":
            state.assigned(response.assignment)
        elif kind == "gap":
            gap = convert.value(Gap, response.gap)
            state.arrived(InFlight(partition=gap.partition, incarnation=state.incarnation, gap=gap))
        elif kind == "opened" and not stream.is_open:
            self._channels.reached(self._endpoint)
            state.opened(stream, response.opened)
            self._hops = 0
            if self._reconnect.failures:
                log.info("deliver stream opened again sink=%s failures=%d", self._sink, self._reconnect.failures)
            self._reconnect.opened()
        elif kind is not None:
            raise ProtocolViolation(f"unexpected message {kind} in this state of the stream")

    def _load(self, load: Callable[[], Awaitable[None]] | None) -> Loading:
        """Fetch schemas beside the stream."""
        if load is None:
            return LOADED
        loading = Loading()
        self._loads.append((loading, load))
        if self._loader is None:
            name = f"forebay-schemas-{self._sink}"
            self._loader = self._channels.io.spawn(self._load_all, name=name, on_fault=self._load_failed)
        return loading

    async def _load_all(self) -> None:
        while self._loads and not self._state.is_closed():
            loading, load = self._loads.popleft()
            await load()
            self._state.loaded(loading)
        self._loader = None

    def _delivery(self, message: pb.Delivery) -> InFlight:
        ranges = [(one.first_offset, one.last_offset) for one in message.ranges]
        pages: list[StoredPage] = []
        schema_of, load = self._schemas.prepared(self._state.incarnation, message.pages)
        for page in message.pages:
            body = checked_body(page)
            last = page.base_offset + page.record_count - 1
            pieces = intersect(ranges, page.base_offset, last)
            if pieces:
                whole = convert.stored_page(page, body, message.partition, *pieces[0], schema_of=schema_of)
                pages.append(whole)
                pages += [convert.narrowed(whole, first, end) for first, end in pieces[1:]]
        if not pages:
            raise ProtocolViolation("the broker sent a delivery without records")
        return InFlight(
            partition=message.partition,
            incarnation=self._state.incarnation,
            owner_epoch=message.owner_epoch,
            revision=message.revision,
            pages=tuple(pages),
            attempts={one.offset: one.attempt for one in message.attempts},
            resend=message.resend,
            durability=convert.enum(Durability, record_pb2.Durability, message.durability, "DURABILITY_"),
            ordering=convert_sinks.ordering(message.ordering),
            loading=self._load(load),
        )
