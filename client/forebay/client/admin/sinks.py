"""Makes, changes, deletes and observes sinks. Durable before it returns."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final, Unpack

import grpc
from google.protobuf.field_mask_pb2 import FieldMask

from forebay.client.admin.listing import parts
from forebay.client.admin.questions import Asking
from forebay.client.errors import InvalidRange, SinkExists, SinkNotFound, SinkReplaced
from forebay.client.transport.channel import Channels, Unary
from forebay.client.values.convert import duration
from forebay.client.values.convert_sinks import settings_message, sink, stats
from forebay.client.values.explanations import Explanation, Purged
from forebay.client.values.records import Gap
from forebay.client.values.sinks import Sink, SinkOptions, SinkStats
from forebay.v1 import sink_service_pb2 as pb
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub

DEAD_LETTERS: Final = ".dlq"


class Sinks:
    """The sinks of a client's brokers. Usable from several threads."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._unary = Unary(channels)
        self._asking = Asking(channels)

    def _stub(self, name: str) -> SinkServiceStub:
        return self._channels.stub(SinkServiceStub, name)

    def create(self, name: str, *, exist_ok: bool = False, **settings: Unpack[SinkOptions]) -> Sink:
        """Make a sink and return it; what is not set takes the broker's default.

        With ``exist_ok`` a sink that exists with the same settings is returned.
        Raises ``InvalidName``, ``InvalidSetting``, ``SinkExists``, ``TooManySinks``.
        """
        request = pb.CreateSinkRequest(
            name=name, settings=settings_message(settings)[0], request_id=secrets.token_hex(8)
        )
        response, _ = self._unary.call("CreateSink", lambda t: self._stub(name).CreateSink(request, timeout=t))
        if not response.created and not exist_ok:
            raise SinkExists(f"sink {name!r} exists", facts={"sink": name})
        return sink(response.sink)

    def get(self, name: str) -> Sink:
        """Return a sink; raises ``SinkNotFound``."""
        request = pb.GetSinkRequest(name=name)
        response, _ = self._unary.call("GetSink", lambda t: self._stub(name).GetSink(request, timeout=t))
        return sink(response.sink)

    def list(self) -> list[Sink]:
        """Return all sinks of all brokers, by name."""
        found: list[Sink] = []
        for endpoint in self._channels.endpoints:
            for part in parts(partial(self._list_of, endpoint)):
                found.extend(sink(one) for one in part.sinks)
        return sorted(found, key=lambda one: one.name)

    def _list_of(self, endpoint: str, token: str) -> pb.ListSinksResponse:
        request = pb.ListSinksRequest(page_size=1000, page_token=token)
        stub = self._channels.stub_at(SinkServiceStub, endpoint)
        answer: pb.ListSinksResponse = self._unary.call("ListSinks", lambda t: stub.ListSinks(request, timeout=t))[0]
        return answer

    def update(self, name: str, *, incarnation: str = "", **settings: Unpack[SinkOptions]) -> Sink:
        """Change the settings that are named; the rest stays. Raises ``InvalidSetting``, ``SinkNotFound``.

        Without an ``incarnation``, here and below, the sink that has the name now is meant, however often a call has to
        be made again; with one, any other raises ``SinkReplaced``.
        """
        message, paths = settings_message(settings)
        request = pb.UpdateSinkRequest(
            name=name,
            settings=message,
            update_mask=FieldMask(paths=paths),
            incarnation=incarnation or self._unary.incarnation(name),
        )
        response, _ = self._unary.call("UpdateSink", lambda t: self._stub(name).UpdateSink(request, timeout=t))
        return sink(response.sink)

    def delete(self, name: str, *, force: bool = False, dead_letters: bool = False, incarnation: str = "") -> None:
        """Delete a sink and all that it holds, ``dead_letters`` too if asked to; else they stay as `<name>.dlq`.

        A sink that is made anew meanwhile is left alone. Raises ``SinkNotEmpty`` unless forced, ``SinkNotFound``,
        ``SinkReplaced``.
        """
        request = pb.DeleteSinkRequest(
            name=name,
            force=force,
            dead_letters=dead_letters,
            incarnation=incarnation or self._unary.incarnation(name),
        )
        letters = self._letters(name) if dead_letters else ""
        tries = 0

        def attempt(timeout_s: float) -> object:
            nonlocal tries
            tries += 1
            return self._stub(name).DeleteSink(request, timeout=timeout_s)

        try:
            self._unary.call("DeleteSink", attempt)
        except (SinkNotFound, SinkReplaced):
            # The first try did it and its answer was lost.
            if tries == 1:
                raise
            if letters:  # a broker that was killed may have deleted only the first of the two
                with suppress(SinkNotFound, SinkReplaced):
                    self.delete(name + DEAD_LETTERS, force=force, incarnation=letters)

    def _letters(self, name: str) -> str:
        """The incarnation of a dead-letter sink, empty when there is none."""
        try:
            return self._unary.incarnation(name + DEAD_LETTERS)
        except SinkNotFound:
            return ""

    def pause(self, name: str, reason: str = "", *, incarnation: str = "") -> None:
        """Stop deliveries; appends go on. ``reason`` is shown in the stats."""
        incarnation = incarnation or self._unary.incarnation(name)
        request = pb.PauseSinkRequest(name=name, reason=reason, incarnation=incarnation)
        self._unary.call("PauseSink", lambda t: self._stub(name).PauseSink(request, timeout=t))

    def resume(self, name: str, *, incarnation: str = "") -> None:
        """Let deliveries go on where they were."""
        request = pb.ResumeSinkRequest(name=name, incarnation=incarnation or self._unary.incarnation(name))
        self._unary.call("ResumeSink", lambda t: self._stub(name).ResumeSink(request, timeout=t))

    def purge(
        self,
        name: str,
        *,
        partition: int | None = None,
        until_offset: int | None = None,
        until_time: datetime | None = None,
        incarnation: str = "",
    ) -> Sequence[Purged]:
        """Drop what a sink holds when this is called, durably; return what went, per partition.

        All of it, or only of one partition, or only pages that end at or below ``until_offset`` (of one partition), or
        whose records were all accepted before ``until_time``. What is in flight is revoked. Counted as ``PURGED``.
        What is published after the call began stays, also when the connection breaks and the purge is sent again; what
        the try with the lost answer dropped is not in what is returned then. Without ``until_offset`` the broker is
        asked first where the sink ends, once: when it does not tell, nothing is done and ``BrokerUnavailable`` raised.
        Raises ``SinkNotFound``, ``SinkReplaced``, ``InvalidPartition``, ``InvalidRange``, ``OffsetAhead``.
        """
        if until_offset is not None and until_time is not None:
            raise InvalidRange("until_offset and until_time exclude each other")
        return self._asking.purge(
            name,
            partition=partition,
            until_offset=until_offset,
            until_time=until_time,
            incarnation=incarnation,
        )

    def gaps(self, name: str, *, partition: int | None = None) -> Iterator[Gap]:
        """Yield the gaps of a sink by partition and offset: what was dropped, why, when and how much of it."""
        return self._asking.gaps(name, partition=partition)

    def explain(
        self, name: str, offset: int, *, partition: int = 0, subscription: str = "default", incarnation: str = ""
    ) -> Explanation:
        """Return where a record is, what became of it, and what its delivery waits for. Any offset may be asked about.

        Raises ``SinkNotFound``, ``SubscriptionNotFound``, ``InvalidPartition``.
        """
        return self._asking.explain(
            name, offset, partition=partition, subscription=subscription, incarnation=incarnation
        )

    def stats(self, name: str) -> SinkStats:
        """Return counters, account and lag."""
        return stats(self._asking.stats(name))

    def watch(self, name: str, *, interval_s: float = 1.0) -> Iterator[SinkStats]:
        """Yield the stats at once and then at every interval, until the iterator is closed.

        Ends with the error that broke the stream; ``SinkNotFound`` when the sink was deleted.
        """
        request = pb.WatchSinkStatsRequest(name=name, interval=duration(interval_s))
        call = self._stub(name).WatchSinkStats(request)
        try:
            for response in call:
                yield stats(response.stats)
        except grpc.RpcError as failure:
            raise self._channels.ended(failure, name) from failure
        finally:
            call.cancel()
