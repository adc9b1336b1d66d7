"""Keeps one deliver stream open: opens it, reads what comes, comes back when it breaks.

One thread (``holdfast-subscriber-SINK``) opens and reads; grpc's own thread asks the state for what to send. Both end
with ``close``.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator

import grpc

from holdfast.client import convert, convert_sinks
from holdfast.client.channel import Channels
from holdfast.client.columns import checked_body
from holdfast.client.delivery import Delivery
from holdfast.client.errors import BrokerUnavailable, HoldfastError, PageCorrupt, ProtocolViolation
from holdfast.client.ranges import intersect
from holdfast.client.retry import RetryState
from holdfast.client.schemas import SchemaCache
from holdfast.client.settings import SubscriberSettings
from holdfast.client.subscription_state import Session, SubscriptionState
from holdfast.client.values import Durability, StoredPage
from holdfast.v1 import buffer_service_pb2 as pb
from holdfast.v1 import record_pb2
from holdfast.v1.buffer_service_pb2_grpc import BufferServiceStub

log = logging.getLogger(__name__)


class SubscribeStream:
    """The thread of one subscriber."""

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
        self._call: grpc.Call | None = None
        self._lock = threading.Lock()
        """Protects the call against a `close` between two streams."""
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"holdfast-subscriber-{self._sink}", daemon=True)

    def start(self) -> None:
        """Start to connect."""
        self._thread.start()

    def stop(self) -> None:
        """End the stream and the thread. The state has to be closed."""
        with self._lock:
            self._stopped = True
            call = self._call
        if call is not None:
            call.cancel()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        pause = RetryState(self._channels.settings.reconnect, random.random)
        while not self._state.is_closed:
            session = Session()
            error = self._one_stream(session)
            if session.is_open:
                pause.succeeded()
            comes_back = error.retryable and self._settings.reconnect
            delay_s = pause.failed(0.0, error.retry_after_s) if comes_back else None
            self._state.broke(session, error if delay_s is None else None)
            if delay_s is None:
                return
            log.info(
                "deliver stream broke sink=%s reason=%s failures=%d delay_s=%.2f",
                self._sink,
                error.reason,
                pause.failures,
                delay_s,
            )
            self._state.pause(delay_s)

    def _one_stream(self, session: Session) -> HoldfastError:
        """Run one stream to its end; return what ended it."""
        try:
            channel = self._channels.of_sink(self._sink)
            call = BufferServiceStub(channel).Deliver(self._requests(session))
        except ValueError as failure:  # grpc: the channel was closed
            return BrokerUnavailable(str(failure))
        except HoldfastError as error:
            return error
        with self._lock:
            self._call = call
            stopped = self._stopped
        if stopped:
            call.cancel()
        try:
            for response in call:
                self._handle(session, response)
        except grpc.RpcError as failure:
            return self._channels.ended(failure, self._sink)
        except PageCorrupt as error:
            # Damaged on the way: what was not settled comes again over a new stream.
            call.cancel()
            return BrokerUnavailable(str(error), reason=error.reason)
        except HoldfastError as error:
            call.cancel()
            return error
        return BrokerUnavailable("the broker ended the stream")

    def _requests(self, session: Session) -> Iterator[pb.DeliverRequest]:
        """Yield what is sent. Runs on grpc's thread."""
        yield pb.DeliverRequest(open=self._opening())
        while (request := self._state.next_request(session)) is not None:
            yield request

    def _handle(self, session: Session, response: pb.DeliverResponse) -> None:
        state = self._state
        kind = response.WhichOneof("response")
        if kind == "delivery":
            state.arrived(self._delivery(response.delivery))
        elif kind == "results":
            state.resolved([convert.settle_result(one) for one in response.results.results])
        elif kind == "revoked":
            state.revoked(response.revoked)
        elif kind == "assignment":
            state.assigned(response.assignment)
        elif kind == "gap":
            gap = convert.gap(response.gap)
            state.arrived(Delivery(settler=state, partition=gap.partition, incarnation=state.incarnation, gap=gap))
        elif kind == "opened" and not session.is_open:
            state.opened(session, response.opened)
        elif kind is not None:
            raise ProtocolViolation(f"{kind} came at a time when it must not")

    def _delivery(self, message: pb.Delivery) -> Delivery:
        ranges = [(one.first_offset, one.last_offset) for one in message.ranges]
        pages: list[StoredPage] = []
        schema_of = self._schemas.source(self._state.incarnation)
        for page in message.pages:
            body = checked_body(page)
            last = page.base_offset + page.record_count - 1
            pieces = intersect(ranges, page.base_offset, last)
            if pieces:
                whole = convert.stored_page(page, body, message.partition, *pieces[0], schema_of=schema_of)
                pages.append(whole)
                pages += [convert.narrowed(whole, first, end) for first, end in pieces[1:]]
        if not pages:
            raise ProtocolViolation("a delivery without records")
        return Delivery(
            settler=self._state,
            partition=message.partition,
            incarnation=self._state.incarnation,
            owner_epoch=message.owner_epoch,
            revision=message.revision,
            pages=tuple(pages),
            attempts={one.offset: one.attempt for one in message.attempts},
            resend=message.resend,
            durability=convert.enum(Durability, record_pb2.Durability, message.durability, "DURABILITY_"),
            ordering=convert_sinks.ordering(message.ordering),
        )
