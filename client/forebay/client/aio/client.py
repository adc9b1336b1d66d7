"""Client of one broker, or of several brokers that share the sinks, for asyncio.

A client belongs to the event loop that uses it first. Any other use raises ``Closed`` with ``FOREIGN_LOOP``.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self, Unpack

from forebay.client.aio.admin import (
    Backups,
    DeadLetters,
    Epochs,
    Positions,
    Realtime,
    Resends,
    Schemas,
    Shards,
    Sinks,
    Subscriptions,
)
from forebay.client.aio.loop import EventLoop
from forebay.client.aio.publisher import Publisher
from forebay.client.aio.replay import PageReplay, RecordReplay
from forebay.client.aio.subscriber import Subscriber
from forebay.client.calls import ClientCalls
from forebay.client.consume.core import SubscriberCore
from forebay.client.errors import ForebayError
from forebay.client.publish.core import PublisherCore
from forebay.client.publish.send_buffer import OnFailure
from forebay.client.replay.pages import PartitionPages, ReplayOptions
from forebay.client.replay.sinks import SinkPages
from forebay.client.settings import (
    DEFAULT_ENDPOINT,
    ClientSettings,
    PublisherOptions,
    PublisherSettings,
    SubscriberOptions,
    SubscriberSettings,
)
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Awaiting
from forebay.client.values.epochs import Stage


class Client(ClientCalls, Awaiting):
    """Client of one broker or of several, for the tasks of one event loop.

    Arguments, results and errors are those of ``forebay.client.Client``; whatever waits is a coroutine.
    """

    def __init__(
        self, endpoint: str | Iterable[str] = DEFAULT_ENDPOINT, *, settings: ClientSettings | None = None
    ) -> None:
        self.settings = settings or ClientSettings.from_environment()
        super().__init__(Channels(endpoint, self.settings, EventLoop(self.settings)))
        self.sinks = Sinks(self._channels)
        self.schemas = Schemas(self._channels)
        self.subscriptions = Subscriptions(self._channels)
        self.resends = Resends(self._channels)
        self.dead_letters = DeadLetters(self._channels)
        self.epochs = Epochs(self._channels)
        self.positions = Positions(self._channels)
        self.realtime = Realtime(self._channels)
        self.shards = Shards(self._channels)
        self.backups = Backups(self._channels)
        self._open: set[Publisher | Subscriber] = set()

    async def close(self) -> None:
        """Close all publishers, subscribers and replays of this client, then its connections. Idempotent.

        Publishers are flushed. Raises the first failure of a publisher after everything is closed.
        """
        self._channels.io.check()
        first: ForebayError | None = None
        try:
            for one in list(self._open):
                try:
                    await one.close()
                except ForebayError as error:
                    first = first or error
        except BaseException:  # as of a cancelled task: nothing may continue without an owner
            for one in list(self._open):
                one.cut()
            raise
        finally:
            await self._channels.close()
        if first is not None:
            raise first

    async def __aenter__(self) -> Self:
        """Return the client itself."""
        self._channels.io.check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client; after an exception, abandon unsent records instead of flushing publishers."""
        try:
            for one in list(self._open) if kind is not None else ():
                if isinstance(one, Publisher):
                    await one.abandon()
        except BaseException:  # as of a cancelled task: nothing may continue without an owner
            for one in list(self._open):
                one.cut()
            raise
        finally:
            await self.close()

    async def publisher(
        self,
        sink: str,
        *,
        writer_id: str | None = None,
        stage: Stage | None = None,
        incarnation: str = "",
        on_failure: OnFailure | None = None,
        **options: Unpack[PublisherOptions],
    ) -> Publisher:
        """Open a publisher; returns when the broker has accepted it. See ``forebay.client.Client.publisher``.

        ``on_failure(error, records)`` is called on the event loop.
        """
        self._channels.io.check()
        core = PublisherCore(
            self._channels,
            sink,
            settings=PublisherSettings(**options),
            writer_id=writer_id,
            stage=stage,
            incarnation=incarnation,
            on_failure=on_failure,
        )
        await core.connect()
        publisher = Publisher(core, self._open.discard)
        self._open.add(publisher)
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
        """Return an iterator of deliveries. See ``forebay.client.Client.subscriber``."""
        core = SubscriberCore(
            self._channels,
            sink,
            subscription=subscription,
            consumer_id=consumer_id,
            settings=SubscriberSettings(**options),
            incarnation=incarnation,
            program=program,
        )
        subscriber = Subscriber(core, self._open.discard)
        self._open.add(subscriber)
        return subscriber

    def replay(self, sink: str, *, partition: int | None = None, **options: Unpack[ReplayOptions]) -> RecordReplay:
        """Replay a sink record by record. See ``forebay.client.Client.replay``."""
        return RecordReplay(self.replay_pages(sink, partition=partition, **options), options.get("on_gap", "raise"))

    def replay_pages(self, sink: str, *, partition: int | None = None, **options: Unpack[ReplayOptions]) -> PageReplay:
        """Replay a sink page by page. See ``forebay.client.Client.replay_pages``."""
        steps: PartitionPages | SinkPages = (
            SinkPages(self._channels, sink, options)
            if partition is None
            else PartitionPages(self._channels, sink, partition=partition, **options)
        )
        return PageReplay(self._channels.io, steps)
