"""Client of one broker, or of several brokers that share the sinks.

A client connects on first use, is safe for use from several threads, and opens new connections in the child after
``fork``. Publishers, subscribers and replays belong to the process that opened them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self, Unpack

from forebay.client.admin.backups import Backups
from forebay.client.admin.dead_letters import DeadLetters
from forebay.client.admin.epochs import Epochs
from forebay.client.admin.positions import Positions
from forebay.client.admin.realtime import Realtime
from forebay.client.admin.resends import Resends
from forebay.client.admin.schemas import Schemas
from forebay.client.admin.shards import Shards
from forebay.client.admin.sinks import Sinks
from forebay.client.admin.subscriptions import Subscriptions
from forebay.client.calls import ClientCalls
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
    SubscriberOptions,
    SubscriberSettings,
)
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, blocked
from forebay.client.values.epochs import Stage


class Client(ClientCalls, Blocking):
    """Client of one broker or of several.

    ``endpoint`` is ``HOST:PORT``, or a list of them: each sink is stored on one of these brokers, selected by the name
    of the sink. The port may be omitted; it is 7461 then. ``[::1]:PORT``, ``unix:PATH`` and ``dns:///HOST:PORT`` are
    endpoints, too. ``forebay://HOST:PORT,HOST:PORT`` names any members of a fleet: the client finds the shard of each
    sink, and the owner of each shard, also after a takeover. Raises ``INVALID_SETTING`` for another form.

    Without ``settings``, TLS and token come from the environment: see ``ClientSettings.from_environment``.
    """

    def __init__(
        self, endpoint: str | Iterable[str] = DEFAULT_ENDPOINT, *, settings: ClientSettings | None = None
    ) -> None:
        self.settings = settings or ClientSettings.from_environment()
        super().__init__(Channels(endpoint, self.settings))
        self.sinks = Sinks(self._channels)
        self.schemas = Schemas(self._channels)
        self.subscriptions = Subscriptions(self._channels)
        self.resends = Resends(self._channels)
        self.dead_letters = DeadLetters(self._channels)
        self.epochs = Epochs(self._channels)
        self.positions = Positions(self._channels)
        self.backups = Backups(self._channels)
        self.realtime = Realtime(self._channels)
        self.shards = Shards(self._channels)
        self._lock = threading.Lock()
        """Protects the set below."""
        self._open: set[Publisher | Subscriber | CheckpointedConsumer] = set()

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
        blocked(self._channels.close())
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

    def subscriber(
        self,
        sink: str,
        *,
        subscription: str = "default",
        consumer_id: str | None = None,
        incarnation: str = "",
        program: str = "",
        **options: Unpack[SubscriberOptions],
    ) -> Subscriber:
        """Return an iterator of deliveries; it connects when the first delivery is requested.

        The options are the fields of ``SubscriberSettings``. ``credit_records`` and ``credit_bytes`` bound the records
        in flight: delivered and not settled. ``program`` is shown with the connection: name and version of the
        program, and what it delivers to.
        """
        subscriber = Subscriber(
            self._channels,
            sink,
            subscription=subscription,
            consumer_id=consumer_id,
            settings=SubscriberSettings(**options),
            incarnation=incarnation,
            program=program,
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

        ``close`` of the store releases its connections. Raises ``InvalidArgument``, ``PositionStoreError``.
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
        return SinkReplay(self._channels, sink, options)

    def _track(self, one: Publisher | Subscriber | CheckpointedConsumer) -> None:
        with self._lock:
            self._open.add(one)

    def _untrack(self, one: Publisher | Subscriber | CheckpointedConsumer) -> None:
        with self._lock:
            self._open.discard(one)
