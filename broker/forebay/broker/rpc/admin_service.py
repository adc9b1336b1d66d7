"""AdminService: identity and state of this broker, realtime switch, connections and hand-over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from forebay.broker.core.backups.values import Restored
from forebay.broker.rpc.connections import list_connections
from forebay.broker.rpc.convert import timestamp
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.resources.connections import Connections
from forebay.page.format import PAGE_BYTES_MAX
from forebay.v1 import admin_service_pb2 as pb
from forebay.v1 import admin_service_pb2_grpc as pb_grpc

LISTED_MAX: Final = 100
"""Sentences of one kind."""
OUTAGE_CAUSE_MAX: Final = 500
"""Characters of the error of a journal."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Facts that are constant while the broker runs."""

    version: str
    store_id: str
    format: int
    started_at_us: int
    data_dir: str
    """Empty for a broker that keeps its data in memory."""


def _restored(restored: Restored | None) -> dict[str, Any]:
    if restored is None:
        return {}
    times = {"restored_backup_at": restored.taken_at_us, "restored_at": restored.restored_at_us}
    return {"restored_from": restored.backup, **{name: timestamp(at_us) for name, at_us in times.items()}}


def _resources(broker: Broker) -> dict[str, Any]:
    """Return disk and memory, and the newest backup."""
    reading, newest = broker.memory.worst, broker.backups.newest
    return {
        "disk_free_bytes": broker.committer.free_bytes,
        "disk_reserve_bytes": broker.bounds.disk_reserve,
        "memory_used_bytes": reading.used if reading is not None else 0,
        "memory_limit_bytes": reading.limit if reading is not None else 0,
        "memory_high_watermark": broker.bounds.memory_high_watermark,
        "backup_target": broker.backups.target,
        **({} if newest is None else {"newest_backup": newest.id, "newest_backup_at": timestamp(newest.taken_at_us)}),
    }


def _shard(broker: Broker) -> dict[str, Any]:
    """Return the journal of a shard and the place of this owner in it."""
    if broker.checkpoints is None:
        return {}
    outage = broker.committer.outage()
    return {
        "journal_outage": outage.reason.name if outage is not None else "",
        "journal_outage_cause": outage.cause[:OUTAGE_CAUSE_MAX] if outage is not None else "",
        "journal": broker.checkpoints.journal,
        "journal_durability": broker.checkpoints.journal_durability,
        "owner_epoch": broker.checkpoints.owner_epoch,
        "journal_position": broker.checkpoints.journal_position,
        "journal_bytes": broker.checkpoints.journal_bytes or 0,
    }


class AdminServicer(pb_grpc.AdminServiceServicer):
    """Identity, state, realtime switch, connections and hand-over of the broker over gRPC."""

    def __init__(
        self,
        broker: Broker,
        identity: Identity,
        warnings: Callable[[], Sequence[str]],
        connections: Connections,
        hand_over: Callable[[str], tuple[int, bool]],
    ) -> None:
        """``hand_over`` begins the hand-over to an endpoint.

        It returns the owner epoch, and False if the endpoint is that of this broker. Raises ``NoJournal`` and
        ``Draining``.
        """
        self._broker = broker
        self._connections = connections
        self._identity = identity
        self._warnings = warnings
        self._hand_over = hand_over

    async def GetBrokerInfo(self, request: pb.GetBrokerInfoRequest, context: Any) -> pb.GetBrokerInfoResponse:
        broker, identity = self._broker, self._identity
        state, reason = pb.BROKER_STATE_SERVING, ""
        if broker.committer.fenced is not None:
            state, reason = pb.BROKER_STATE_FENCED, str(broker.committer.fenced)
        elif broker.draining:
            state, reason = pb.BROKER_STATE_DRAINING, "the broker is stopping"
        return pb.GetBrokerInfoResponse(
            version=identity.version,
            store_id=identity.store_id,
            format=identity.format,
            start_count=broker.start_count,
            started_at=timestamp(identity.started_at_us),
            state=state,
            state_reason=reason,
            sinks=len(broker.sinks),
            sinks_max=broker.bounds.sinks,
            record_bytes_max=broker.bounds.record_bytes,
            page_bytes_max=PAGE_BYTES_MAX,
            tail_bytes=broker.read_cache.size,
            tail_bytes_max=broker.read_cache.bytes_max,
            waiting_bytes=broker.committer.waiting_bytes,
            data_dir=identity.data_dir,
            groups=broker.committer.groups,
            quarantined_pages=broker.quarantine.pages,
            quarantined_bytes=broker.quarantine.size,
            mended=[str(one) for one in broker.repairs[:LISTED_MAX]],
            unreadable=broker.unreadable()[:LISTED_MAX],
            read_failures=broker.pages.holds.failures,
            background_failures=broker.background_failures()[:LISTED_MAX],
            quarantine_evicted_pages=broker.quarantine.evicted,
            warnings=self._warnings()[:LISTED_MAX],
            realtime=broker.realtime.enabled,
            realtime_chosen=broker.realtime.chosen is not None,
            realtime_failure=broker.read_cache.failure,
            now=timestamp(broker.clock.wall_us()),
            **_restored(broker.restored),
            **_resources(broker),
            **_shard(broker),
        )

    async def SetRealtime(self, request: pb.SetRealtimeRequest, context: Any) -> pb.SetRealtimeResponse:
        enabled = await self._broker.set_realtime(
            request.enabled if request.HasField("enabled") else None,
            sink=request.sink,
            incarnation=request.incarnation,
        )
        return pb.SetRealtimeResponse(enabled=enabled, broker_enabled=self._broker.realtime.enabled)

    async def ListShards(self, request: pb.ListShardsRequest, context: Any) -> pb.ListShardsResponse:
        fleet = self._broker.fleet
        shards = [
            pb.Shard(name=one.shard, endpoint=one.endpoint, owner_epoch=one.epoch, journal=one.journal)
            for one in await fleet.shards()
        ]
        return pb.ListShardsResponse(shard=fleet.shard, shards=shards)

    async def ListConnections(self, request: pb.ListConnectionsRequest, context: Any) -> pb.ListConnectionsResponse:
        return list_connections(self._broker, self._connections, request)

    async def HandOver(self, request: pb.HandOverRequest, context: Any) -> pb.HandOverResponse:
        epoch, begun = self._hand_over(request.to)
        return pb.HandOverResponse(owner_epoch=epoch, already_owner=not begun)
