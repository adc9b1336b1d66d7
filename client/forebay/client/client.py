"""Client of one broker, or of several brokers that share the sinks.

A client connects on first use, is safe for use from several threads, and opens new connections in the child after
``fork``. Publishers, subscribers and replays belong to the process that opened them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, Unpack

from forebay.client.admin.backups import Backups
from forebay.client.admin.dead_letters import DeadLetters
from forebay.client.admin.epochs import Epochs
from forebay.client.admin.positions import Positions
from forebay.client.admin.realtime import Realtime
from forebay.client.admin.resends import Resends
from forebay.client.admin.schemas import Schemas
from forebay.client.admin.sinks import Sinks
from forebay.client.admin.subscriptions import Subscriptions
from forebay.client.consume.puller import PullClient, Pulled
from forebay.client.consume.subscriber import Subscriber
from forebay.client.errors import ForebayError
from forebay.client.positions.consumer import CheckpointedConsumer
from forebay.client.positions.settings import ConsumerOptions, ConsumerSettings
from forebay.client.positions.store import PositionStore, open_store
from forebay.client.publish.publisher import Publisher
from forebay.client.publish.send_buffer import OnFailure
from forebay.client.replay.pages import PageReplay, ReplayOptions
from forebay.client.replay.records import RecordReplay
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
    """Client of one broker or of several.

    ``endpoint`` is ``HOST:PORT``, or a list of them: each sink is stored on one of these brokers, selected by the name
    of the sink. Without ``settings``, TLS and token come from the environment: see ``ClientSettings.from_environment``.
    """

    def __init__(
        self, endpoint: str | Iterable[str] = DEFAULT_ENDPOINT, *, settings: ClientSettings | None = None
    ) -> None:
        self.settings = settings or ClientSettings.from_environment()
        self._channels = Channels(as_endpoints(endpoint), self.settings)
        self._unary = Unary(self._channels)
        self._puller = PullClient(self._channels)
        self.sinks = Sinks(self._channels)
        self.schemas = Schemas(self._channels)
        self.subscriptions = Subscriptions(self._channels)
        self.resends = Resends(self._channels)
        self.dead_letters = DeadLetters(self._channels)
        self.epochs = Epochs(self._channels)
        self.positions = Positions(self._channels)
        self.backups = Backups(self._channels)
        self.realtime = Realtime(self._channels)
        self._lock = threading.Lock()
        """Protects the set below."""
        self._open: set[Publisher | Subscriber | CheckpointedConsumer] = set()

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Endpoints of the brokers, as given."""
        return self._channels.endpoints

    def close(self) -> None:
        """Close all publishers, subscribers and replays of this client, then its connections. Idempotent.

        Publishers are flushed. Raises the first failure of a publisher after everything is closed.
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
        """Return the client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client; after an exception, abandon unsent records instead of flushing publishers."""
        if kind is not None:
            with self._lock:
                publishers = [one for one in self._open if isinstance(one, Publisher)]
            for publisher in publishers:
                publisher.abandon()
        self.close()

    def info(self, endpoint: str | None = None) -> BrokerInfo:
        """Return version, state and limits of a broker; of the first endpoint if ``endpoint`` is not given."""
        stub = self._channels.stub_at(AdminServiceStub, endpoint or self.endpoints[0])
        request = admin_service_pb2.GetBrokerInfoRequest()
        response, _ = self._unary.call("GetBrokerInfo", lambda t: stub.GetBrokerInfo(request, timeout=t))
        return convert.value(BrokerInfo, response)

    def publisher(
        self,
        sink: str,
        *,
        writer_id: str | None = None,
        stage: Stage | None = None,
        incarnation: str = "",
        on_failure: OnFailure | None = None,
        **options: Unpack[PublisherOptions],
    ) -> Publisher:
        """Open a publisher; returns when the broker has accepted it, or raises after ``delivery_timeout_s``.

        The options are the fields of ``PublisherSettings``. ``writer_id`` is random by default; it must be unique to a
        publisher. ``on_failure(error, records)`` is called for each failed page, with its number of records, on the
        thread that completes the futures. Raises ``SinkNotFound``, ``INVALID_SETTING``, ``BrokerUnavailable``.

        With a ``stage``, records become visible only when ``epochs.commit`` names the tokens that ``Publisher.staged``
        returns. The publisher then also raises ``AlreadyCommitted``, ``EPOCH_FENCED``, ``PRODUCER_CHANGED``,
        ``STAGING_UNSUPPORTED`` and ``INVALID_EPOCH``, at opening or later.
        """
        publisher = Publisher(
            self._channels,
            sink,
            settings=PublisherSettings(**options),
            writer_id=writer_id,
            stage=stage,
            incarnation=incarnation,
            on_failure=on_failure,
            on_close=self._untrack,
        )
        self._track(publisher)
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
        """Append a few records in one call; returns one durable receipt per partition and page.

        At least once. If the connection breaks during the call, the outcome is unknown. The call is then retried only
        with ``retry_maybe_sent``, which may append the records twice; otherwise it raises.
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
                is_idempotent=retry_maybe_sent,
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
        """Return an iterator of deliveries; it connects when the first delivery is requested.

        ``credit_records`` and ``credit_bytes`` bound the records in flight: delivered and not settled.
        """
        subscriber = Subscriber(
            self._channels,
            sink,
            subscription=subscription,
            consumer_id=consumer_id,
            settings=SubscriberSettings(credit_records, credit_bytes, reconnect),
            incarnation=incarnation,
            on_close=self._untrack,
        )
        self._track(subscriber)
        return subscriber

    def consumer(
        self, sink: str, name: str, *, store: str = "broker:", **options: Unpack[ConsumerOptions]
    ) -> CheckpointedConsumer:
        """Return a consumer that reads a sink by replay and resumes at its saved position.

        Consumers of one ``name`` share the positions; the latest one replaces the others.
        ``store`` is a URL: ``broker:`` (the broker of the sink, the default), ``file:///PATH``, and those of the
        installed extras. The options are the fields of ``ConsumerSettings``. The consumer connects when the first batch
        is requested. Raises ``InvalidArgument``, ``PositionStoreError``.
        """
        settings = ConsumerSettings(**options)
        consumer = CheckpointedConsumer(
            *(self._channels, sink, name),
            store=self.position_store(store, rw_timeout_s=settings.rw_timeout_s),
            settings=settings,
            on_close=self._untrack,
        )
        self._track(consumer)
        return consumer

    def position_store(self, url: str = "broker:", *, rw_timeout_s: float = 10.0) -> PositionStore:
        """Open a store of saved positions, as ``consumer`` does.

        Raises ``InvalidArgument``, ``PositionStoreError``.
        """
        return open_store(url, channels=self._channels, rw_timeout_s=rw_timeout_s)

    def replay(self, sink: str, *, partition: int | None = None, **options: Unpack[ReplayOptions]) -> RecordReplay:
        """Replay a sink record by record: a partition from ``start`` or ``start_time`` to before ``end``.

        The default start is the earliest stored record. The default end is the current end; with ``follow`` the replay
        does not end. Without a ``partition`` all partitions are read, one after another; ``start``, ``end`` and
        ``follow`` then require a sink with a single partition. Missing records raise ``GapError``, or yield a ``Gap``
        with ``on_gap="yield"``. Stored records that cannot be decoded raise ``InvalidPage``, or yield a ``Gap`` with
        ``UNREADABLE``.
        """
        return RecordReplay(self.replay_pages(sink, partition=partition, **options), options.get("on_gap", "raise"))

    def replay_pages(
        self, sink: str, *, partition: int | None = None, **options: Unpack[ReplayOptions]
    ) -> PageReplay | SinkReplay:
        """Replay a sink page by page, for bulk readers: see ``replay`` and ``forebay.client.replay.columns``."""
        if partition is not None:
            return PageReplay(self._channels, sink, partition=partition, **options)
        return SinkReplay(self._channels, self.sinks, sink, options)

    def offset_at(self, sink: str, time: datetime, *, partition: int, incarnation: str = "") -> int:
        """Return the offset of the first stored record of a partition accepted at ``time`` or later.

        If there is none, returns the offset of the next record. A time without a zone is local. Raises
        ``SinkNotFound``, ``INVALID_PARTITION``.
        """
        return self._puller.offset_at(sink, time, partition=partition, incarnation=incarnation)

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
        """Pull up to ``max_records`` records for ``consumer_id``, waiting up to ``wait_s`` for the first.

        A pull uses no stream. The records are in flight for the ack deadline of the sink. The call is not retried if
        the connection breaks.
        """
        return self._puller.pull(
            sink,
            subscription=subscription,
            consumer_id=consumer_id,
            max_records=max_records,
            wait_s=wait_s,
            incarnation=incarnation,
        )

    def ack(self, sink: str, records: Pulled, *, subscription: str = "default") -> list[SettleResult]:
        """Settle pulled records; returns one result per range of offsets.

        Raises ``SinkReplaced`` if the sink was deleted and recreated since the pull.
        """
        return self._puller.ack(sink, records, subscription=subscription)

    def nack(
        self,
        sink: str,
        records: Pulled,
        *,
        subscription: str = "default",
        delay_s: float | None = None,
        reason: str = "",
    ) -> list[SettleResult]:
        """Reject pulled records for redelivery, not before ``delay_s``; returns one result per range.

        The call is not retried if the connection breaks: the records are then redelivered at the latest when their ack
        deadline has passed. Raises ``SinkReplaced`` if the sink was deleted and recreated since the pull.
        """
        return self._puller.nack(sink, records, subscription=subscription, delay_s=delay_s, reason=reason)

    def peek(
        self,
        sink: str,
        *,
        partition: int = 0,
        offset: int | None = None,
        max_records: int = 10,
        incarnation: str = "",
    ) -> list[PeekedRecord]:
        """Return a few records as text, from ``offset`` or from the first unsettled record of ``default``."""
        return self._puller.peek(
            sink, partition=partition, offset=offset, max_records=max_records, incarnation=incarnation
        )

    def _track(self, one: Publisher | Subscriber | CheckpointedConsumer) -> None:
        with self._lock:
            self._open.add(one)

    def _untrack(self, one: Publisher | Subscriber | CheckpointedConsumer) -> None:
        with self._lock:
            self._open.discard(one)
