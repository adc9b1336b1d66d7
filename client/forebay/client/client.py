"""The way in: a client of one broker, or of several that share the sinks among them.

A client makes its connections when they are needed, is usable from several threads, and after ``fork`` makes new ones
in the child. Publishers, subscribers and replays belong to the process that opened them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, Unpack

from forebay.client.admin.dead_letters import DeadLetters
from forebay.client.admin.epochs import Epochs
from forebay.client.admin.resends import Resends
from forebay.client.admin.schemas import Schemas
from forebay.client.admin.sinks import Sinks
from forebay.client.admin.subscriptions import Subscriptions
from forebay.client.consume.puller import Pulling
from forebay.client.consume.subscriber import Subscriber
from forebay.client.errors import ForebayError
from forebay.client.publish.publisher import Publisher
from forebay.client.replay.records import RecordReplay
from forebay.client.replay.replayer import PageReplay, ReplayOptions
from forebay.client.replay.sinks import SinkReplay
from forebay.client.settings import (
    DEFAULT_ENDPOINT,
    ClientSettings,
    PublisherOptions,
    PublisherSettings,
    SubscriberSettings,
)
from forebay.client.telemetry import Telemetry
from forebay.client.transport.channel import Channels, Unary, as_endpoints
from forebay.client.values import convert
from forebay.client.values.epochs import Stage
from forebay.client.values.records import (
    BrokerInfo,
    DeliveredRecord,
    PeekedRecord,
    Receipt,
    Record,
    SettleResult,
)
from forebay.v1 import admin_service_pb2, buffer_service_pb2
from forebay.v1.admin_service_pb2_grpc import AdminServiceStub
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub


class Client:
    """A client of one broker or several.

    ``endpoint`` is ``HOST:PORT``, or a list of them: every sink lives on one of these brokers, found by its name.
    Without ``settings`` TLS and token are those of the environment: see ``ClientSettings.from_environment``.
    """

    def __init__(
        self, endpoint: str | Iterable[str] = DEFAULT_ENDPOINT, *, settings: ClientSettings | None = None
    ) -> None:
        self.settings = settings or ClientSettings.from_environment()
        self._channels = Channels(as_endpoints(endpoint), self.settings)
        self._unary = Unary(self._channels)
        self._pulling = Pulling(self._channels)
        self.sinks = Sinks(self._channels)
        self.schemas = Schemas(self._channels)
        self.subscriptions = Subscriptions(self._channels)
        self.resends = Resends(self._channels)
        self.dead_letters = DeadLetters(self._channels)
        self.epochs = Epochs(self._channels)
        self._lock = threading.Lock()
        """Protects the set below."""
        self._open: set[Publisher | Subscriber] = set()

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The brokers, as given."""
        return self._channels.endpoints

    def close(self) -> None:
        """Close everything that was opened by this client, then the connections. Closing twice is fine.

        Publishers are flushed; raises the first failure of theirs, after all is closed.
        """
        with self._lock:
            opened = list(self._open)
        first: ForebayError | None = None
        for one in opened:
            try:
                one.close()
            except ForebayError as error:
                first = first or error
        self._channels.close()
        if first is not None:
            raise first

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an exception without waiting for publishers."""
        if kind is not None:
            with self._lock:
                publishers = [one for one in self._open if isinstance(one, Publisher)]
            for publisher in publishers:
                publisher.abandon()
        self.close()

    def info(self, endpoint: str | None = None) -> BrokerInfo:
        """Return what a broker says about itself; the first one's without ``endpoint``."""
        stub = self._channels.stub_at(AdminServiceStub, endpoint or self.endpoints[0])
        request = admin_service_pb2.GetBrokerInfoRequest()
        response, _ = self._unary.call("GetBrokerInfo", lambda t: stub.GetBrokerInfo(request, timeout=t))
        return convert.broker_info(response)

    def publisher(
        self,
        sink: str,
        *,
        writer_id: str | None = None,
        stage: Stage | None = None,
        incarnation: str = "",
        **options: Unpack[PublisherOptions],
    ) -> Publisher:
        """Open a publisher; returns when the broker has accepted it, trying for up to ``delivery_timeout_s``.

        Options: the fields of ``PublisherSettings``. ``writer_id`` is random unless it is given; two publishers must
        never share one. Raises ``SinkNotFound``, ``InvalidSetting``, ``BrokerUnavailable``.

        With a ``stage`` nothing becomes visible before ``epochs.commit`` names what ``Publisher.staged`` returns.
        Raises then, or ends with, ``AlreadyCommitted``, ``EpochFenced``, ``ProducerChanged``, ``StagingUnsupported``,
        ``InvalidEpoch`` too.
        """
        publisher = Publisher(
            self._channels,
            sink,
            settings=PublisherSettings(**options),
            writer_id=writer_id,
            stage=stage,
            incarnation=incarnation,
            on_close=self._forget,
        )
        self._remember(publisher)
        return publisher

    def publish(
        self,
        sink: str,
        records: Sequence[Record],
        *,
        partition: int | None = None,
        retry_maybe_sent: bool = False,
        incarnation: str = "",
    ) -> list[Receipt]:
        """Append a few records in one call; returns when they are durable, with one receipt per partition and page.

        At least once: when the connection breaks during the call, whether they were appended is not known. The call
        is then not made again unless ``retry_maybe_sent`` says that appending twice is better than an error.
        """
        request = buffer_service_pb2.PublishBatchRequest(
            sink=sink,
            records=[convert.record_message(record) for record in records],
            partition=partition,
            incarnation=incarnation,
        )

        with Telemetry(sink).sending(partition, len(records)) as span:
            response, _ = self._unary.call(
                "PublishBatch",
                lambda t: self._channels.stub(BufferServiceStub, sink).PublishBatch(
                    request, timeout=t, metadata=span.metadata
                ),
                twice_is_fine=retry_maybe_sent,
            )
        return [convert.receipt(receipt) for receipt in response.receipts]

    def subscriber(
        self,
        sink: str,
        *,
        subscription: str = "default",
        consumer_id: str | None = None,
        credit_records: int = 100_000,
        credit_bytes: int = 16 << 20,
        reconnect: bool = True,
        incarnation: str = "",
    ) -> Subscriber:
        """Return an iterator of deliveries; it connects when the first one is asked for.

        ``credit_records`` and ``credit_bytes`` bound what is in flight: delivered and not settled.
        """
        subscriber = Subscriber(
            self._channels,
            sink,
            subscription=subscription,
            consumer_id=consumer_id,
            settings=SubscriberSettings(credit_records, credit_bytes, reconnect),
            incarnation=incarnation,
            on_close=self._forget,
        )
        self._remember(subscriber)
        return subscriber

    def replay(self, sink: str, *, partition: int | None = None, **options: Unpack[ReplayOptions]) -> RecordReplay:
        """Read a sink again, record by record: a partition from ``start`` or ``start_time`` to before ``end``.

        Without a start from the earliest record that is stored; without an end to the end as it is now, or for ever
        with ``follow``. Without a ``partition`` all of them, one after another; ``start``, ``end`` and ``follow`` are
        then for a sink that has only one. Where records are missing it raises ``GapError``, or yields the ``Gap`` with
        ``on_gap="yield"``; where stored ones cannot be decoded, ``InvalidPage``, or a ``Gap`` with ``UNREADABLE``.
        """
        return RecordReplay(self.replay_pages(sink, partition=partition, **options), options.get("on_gap", "raise"))

    def replay_pages(
        self, sink: str, *, partition: int | None = None, **options: Unpack[ReplayOptions]
    ) -> PageReplay | SinkReplay:
        """Read a sink again, page by page, for bulk readers: see ``replay`` and ``forebay.client.replay.columns``."""
        if partition is not None:
            return PageReplay(self._channels, sink, partition=partition, **options)
        return SinkReplay(self._channels, self.sinks, sink, options)

    def offset_at(self, sink: str, time: datetime, *, partition: int, incarnation: str = "") -> int:
        """Return the offset of the first stored record of a partition that was accepted at ``time`` or later.

        Where there is none, the offset that the next record gets. A time without a zone is local.
        Raises ``SinkNotFound``, ``InvalidPartition``.
        """
        return self._pulling.offset_at(sink, time, partition=partition, incarnation=incarnation)

    def pull(
        self,
        sink: str,
        *,
        subscription: str = "default",
        consumer_id: str = "pull",
        max_records: int = 100,
        wait_s: float = 0.0,
        incarnation: str = "",
    ) -> list[DeliveredRecord]:
        """Take up to ``max_records`` records for ``consumer_id`` without a stream, waiting ``wait_s`` for the first.

        They are in flight then, for the sink's ack deadline. Not repeated when the connection breaks.
        """
        return self._pulling.pull(
            sink,
            subscription=subscription,
            consumer_id=consumer_id,
            max_records=max_records,
            wait_s=wait_s,
            incarnation=incarnation,
        )

    def ack(
        self, sink: str, records: Iterable[DeliveredRecord], *, subscription: str = "default"
    ) -> list[SettleResult]:
        """Settle records that were pulled; returns a result per range of offsets.

        Raises ``SinkReplaced`` when the sink was deleted and made anew since.
        """
        return self._pulling.ack(sink, records, subscription=subscription)

    def nack(
        self,
        sink: str,
        records: Iterable[DeliveredRecord],
        *,
        subscription: str = "default",
        delay_s: float | None = None,
        reason: str = "",
    ) -> list[SettleResult]:
        """Give records back that were pulled; they come again, not before ``delay_s``.

        Not repeated when the connection breaks: they come again then too, at the latest when their deadline has
        passed. Raises ``SinkReplaced`` when the sink was deleted and made anew since.
        """
        return self._pulling.nack(sink, records, subscription=subscription, delay_s=delay_s, reason=reason)

    def peek(
        self,
        sink: str,
        *,
        partition: int = 0,
        offset: int | None = None,
        max_records: int = 10,
        incarnation: str = "",
    ) -> list[PeekedRecord]:
        """Return a few records as text, from ``offset`` or the first unsettled one of ``default`` on."""
        return self._pulling.peek(
            sink, partition=partition, offset=offset, max_records=max_records, incarnation=incarnation
        )

    def _remember(self, one: Publisher | Subscriber) -> None:
        with self._lock:
            self._open.add(one)

    def _forget(self, one: Publisher | Subscriber) -> None:
        with self._lock:
            self._open.discard(one)
