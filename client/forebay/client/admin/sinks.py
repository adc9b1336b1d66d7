"""Administration of sinks. Durable before each call returns."""

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
from forebay.client.values.sink_settings import SinkOptions
from forebay.client.values.sinks import Sink, SinkStats
from forebay.v1 import sink_service_pb2 as pb
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub

DEAD_LETTERS: Final = ".dlq"


class Sinks:
    """Sinks of a client's brokers. Thread-safe."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._unary = Unary(channels)
        self._asking = Asking(channels)

    def _stub(self, name: str) -> SinkServiceStub:
        return self._channels.stub(SinkServiceStub, name)

    def create(self, name: str, *, exist_ok: bool = False, **settings: Unpack[SinkOptions]) -> Sink:
        """Create a sink and return it; unset settings get the broker's defaults.

        With ``exist_ok`` an existing sink with the same settings is returned.
        Raises ``InvalidName``, ``InvalidSetting``, ``SinkExists``, ``TooManySinks``.
        """
        request = pb.CreateSinkRequest(
            name=name, settings=settings_message(settings)[0], request_id=secrets.token_hex(8)
        )
        response, _ = self._unary.call("CreateSink", lambda t: self._stub(name).CreateSink(request, timeout=t))
        if not response.created and not exist_ok:
            raise SinkExists(f"sink {name!r} exists already: pass exist_ok=True or another name", facts={"sink": name})
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
        """Change the given settings of a sink. Raises ``InvalidSetting``, ``SinkNotFound``.

        Here and below, a call without ``incarnation`` applies to the sink that has the name when the call starts, also
        if the call is retried. With ``incarnation``, any other sink raises ``SinkReplaced``.
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
        """Delete a sink and its records; with ``dead_letters`` also its dead-letter sink ``<name>.dlq``.

        A sink that is created again meanwhile is not deleted. Raises ``SinkNotEmpty`` unless forced, ``SinkNotFound``,
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
            # The first attempt deleted it, and its answer was lost.
            if tries == 1:
                raise
            if letters:  # a broker that was killed may have deleted only the first of the two
                with suppress(SinkNotFound, SinkReplaced):
                    self.delete(name + DEAD_LETTERS, force=force, incarnation=letters)

    def _letters(self, name: str) -> str:
        """Return the incarnation of a dead-letter sink; empty if there is none."""
        try:
            return self._unary.incarnation(name + DEAD_LETTERS)
        except SinkNotFound:
            return ""

    def pause(self, name: str, reason: str = "", *, incarnation: str = "") -> None:
        """Pause deliveries; appends continue. ``reason`` is shown in the stats."""
        incarnation = incarnation or self._unary.incarnation(name)
        request = pb.PauseSinkRequest(name=name, reason=reason, incarnation=incarnation)
        self._unary.call("PauseSink", lambda t: self._stub(name).PauseSink(request, timeout=t))

    def resume(self, name: str, *, incarnation: str = "") -> None:
        """Resume deliveries where they were paused."""
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
        """Drop the records that a sink holds when this is called, durably; return the result per partition.

        Drops all records, those of one partition, only pages that end at or below ``until_offset`` (of one partition),
        or only pages whose records were all accepted before ``until_time``. Deliveries in flight are revoked. Dropped
        records count as ``PURGED``.

        Records published after the call started stay, also if the connection breaks and the purge is retried. The
        result then excludes records dropped by the attempt whose answer was lost. Without ``until_offset``, the call
        first gets the end offsets from the broker, without a retry: if that fails, nothing is dropped and
        ``BrokerUnavailable`` is raised. Raises ``SinkNotFound``, ``SinkReplaced``, ``InvalidPartition``,
        ``InvalidRange``, ``OffsetAhead``.
        """
        if until_offset is not None and until_time is not None:
            raise InvalidRange("until_offset and until_time are set: set only one of them")
        return self._asking.purge(
            name,
            partition=partition,
            until_offset=until_offset,
            until_time=until_time,
            incarnation=incarnation,
        )

    def gaps(self, name: str, *, partition: int | None = None) -> Iterator[Gap]:
        """Yield the gaps of a sink by partition and offset, with reason, time and counts."""
        return self._asking.gaps(name, partition=partition)

    def explain(
        self, name: str, offset: int, *, partition: int = 0, subscription: str = "default", incarnation: str = ""
    ) -> Explanation:
        """Return location and state of a record, and what its delivery waits for, for any offset.

        Raises ``SinkNotFound``, ``SubscriptionNotFound``, ``InvalidPartition``.
        """
        return self._asking.explain(
            name, offset, partition=partition, subscription=subscription, incarnation=incarnation
        )

    def stats(self, name: str) -> SinkStats:
        """Return counters, account and lag."""
        return stats(self._asking.stats(name))

    def watch(self, name: str, *, interval_s: float = 1.0) -> Iterator[SinkStats]:
        """Yield the stats immediately and then at every interval, until the iterator is closed.

        Raises the error that broke the stream; ``SinkNotFound`` if the sink was deleted.
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
