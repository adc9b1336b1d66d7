"""Composition of a broker without its network: its parts are built here, and each gets what it needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from forebay.broker.core.dead_letters.letters import RecordCodec
from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.shards import DirectoryAway
from forebay.broker.core.writes import PutCounting
from forebay.broker.runtime.backups.backups import Backups, Schedule
from forebay.broker.runtime.backups.checkpoints import Checkpoints
from forebay.broker.runtime.backups.engine import BackupFailed, Checkpointing, Engine
from forebay.broker.runtime.backups.run import JobThread
from forebay.broker.runtime.broker import Bounds, Broker
from forebay.broker.runtime.clock import AgeClock, Clock
from forebay.broker.runtime.commit.accepted import Accepted, AcceptedUnknown, Slots
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.reclaimer import Reclaimer
from forebay.broker.runtime.commit.store import ShardJournal
from forebay.broker.runtime.dead_letters.batch import Target
from forebay.broker.runtime.delivery.marks import DeliveryMarks
from forebay.broker.runtime.delivery.ownership import owner_epochs
from forebay.broker.runtime.epochs.commits import Epochs
from forebay.broker.runtime.epochs.sweep import EpochSweep
from forebay.broker.runtime.fleet import Fleet
from forebay.broker.runtime.housekeeping import Housekeeping
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.runtime.positions import Positions
from forebay.broker.runtime.publish.writers import Writers, lost_epochs
from forebay.broker.runtime.read.page_cache import PageCache
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.read.quarantine import Quarantine
from forebay.broker.runtime.read.read_cache import MakeCache, ReadCache
from forebay.broker.runtime.read.realtime import Realtime
from forebay.broker.runtime.resources.ballast import BallastKeeper
from forebay.broker.runtime.resources.memory import MemoryGuard, Reading, measure
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.runtime.resources.stream_memory import StreamMemory
from forebay.broker.runtime.resources.streams import OpenStreams
from forebay.broker.runtime.resources.supervision import Supervisor
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.flow_log import FlowLog
from forebay.broker.runtime.sink.recovery import SinkRecovery
from forebay.broker.runtime.sink.retention.expiry import Expirer
from forebay.broker.runtime.sink.state import Sink
from forebay.broker.runtime.sinks import Sinks
from forebay.broker.settings import BrokerSettings
from forebay.broker.storage.backup.engine import BackupSettings, Origin, StoreBackups
from forebay.broker.storage.backup.snapshot import SnapshotSource
from forebay.broker.storage.ballast import Ballast
from forebay.broker.storage.records.accepted import DELIVERED, AcceptedFile, boot_id
from forebay.broker.storage.recovery import Recovered
from forebay.broker.storage.replication.checkpoints.source import checkpoints_of_owner
from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.addresses import open_engine
from forebay.broker.storage.replication.shard_directory import ShardDirectory
from forebay.broker.storage.replication.store import ReplicatedStore

_log: Final = logging.getLogger(__name__)


def build_served(
    found: Recovered,
    settings: BrokerSettings,
    clock: Clock,
    *,
    data_dir: str,
    codec: RecordCodec,
    instruments: Instruments,
    on_fenced: Callable[[StoreFenced], None],
    on_memory: Callable[[], None],
    on_deleted: Callable[[], None],
) -> Broker:
    """Build a broker as its settings say; with a data directory, its files are there. See ``build``."""
    counts = partial(AcceptedFile, counting=found.counting, start_count=found.start_count, boot=boot_id())
    files = Path(data_dir) if data_dir else None
    found = _with_observed_age(found, clock)
    ballast = (settings.disk_ballast_bytes, settings.disk_reserve_bytes)
    return build(
        found,
        clock,
        bounds=Bounds(
            sinks=settings.sinks_max,
            partitions=settings.partitions_max,
            streams=settings.streams_max,
            stream_bytes=settings.stream_bytes_max,
            waiting_bytes=settings.waiting_bytes_max,
            journal_batch_bytes=settings.journal_batch_bytes,
            tail_bytes=settings.tail_bytes,
            realtime=settings.realtime,
            record_bytes=settings.record_bytes_max,
            disk_reserve=settings.disk_reserve_bytes,
            stored_bytes=settings.max_broker_bytes,
            session_timeout_s=settings.session_timeout_s,
            clock_step_us=int(settings.max_clock_step_s * 1_000_000),
            memory_high_watermark=settings.memory_high_watermark,
        ),
        sink_defaults=settings.sink_defaults,
        instruments=instruments,
        on_fenced=on_fenced,
        measure_memory=measure,
        on_memory=on_memory,
        on_deleted=on_deleted,
        ballast=BallastKeeper(Ballast(files), size=ballast[0], reserve_bytes=ballast[1]) if files else None,
        codec=codec,
        accepted=counts(files / "accepted") if files else None,
        delivered=counts(files / "delivered", magic=DELIVERED) if files else None,
        backups=_backups(found, settings, clock, files),
        schedule=Schedule(settings.backup_interval_s),
        shard_journal=found.journal.store.owner if isinstance(found.journal.store, ReplicatedStore) else None,
        checkpoints=_checkpoints(found, settings, clock, files),
        fleet=_fleet(found, settings, clock),
    )


def _fleet(found: Recovered, settings: BrokerSettings, clock: Clock) -> Fleet:
    """Return the fleet of an owner of a journal; an empty one for a broker without a journal."""
    store = found.journal.store
    if not isinstance(store, ReplicatedStore):
        return Fleet()
    directory = ShardDirectory(partial(open_engine, settings.journal, creates=False))
    return Fleet(
        settings.shard,
        store.owner.epoch,
        directory,
        journal=store.journal(),
        has_journal=partial(_has_journal, store),
        monotonic=clock.monotonic,
    )


def _has_journal(store: ReplicatedStore) -> bool:
    """Return whether the address of a journal still has it. Blocks. Raises ``DirectoryAway``."""
    try:
        return store.has_journal()
    except EngineAway as away:
        raise DirectoryAway(str(away)) from away


def _checkpoints(found: Recovered, settings: BrokerSettings, clock: Clock, files: Path | None) -> Checkpointing | None:
    """Return the checkpoints of the journal of a shard, None for a broker without one."""
    store = found.journal.store
    if files is None or not isinstance(store, ReplicatedStore):
        return None
    return checkpoints_of_owner(
        store,
        files,
        settings.journal_garbage_bytes,
        clock_us=clock.wall_us,
        monotonic=clock.monotonic,
        failed=BackupFailed,
    )


def _with_observed_age(found: Recovered, clock: Clock) -> Recovered:
    """Return the state of a start whose age continues by the own clock since the former owner's."""
    store = found.journal.store
    if not isinstance(store, ReplicatedStore) or store.observed is None or not clock.boot:
        return found
    return replace(found, age=store.observed.by_clock_of(clock.boot, found.age))


def _backups(found: Recovered, settings: BrokerSettings, clock: Clock, files: Path | None) -> Engine | None:
    """Return the backups of a store on disk, None without a target."""
    store = found.journal.store
    if not settings.backup_target or files is None or not isinstance(store, SnapshotSource):
        return None
    origin = Origin(
        store=store,
        directory=files,
        store_id=found.store_id,
        start_count=found.start_count,
        version=version("forebay"),
    )
    chosen = BackupSettings(
        target=settings.backup_target, keep_last=settings.backup_keep_last, keep_days=settings.backup_keep_days
    )
    return StoreBackups(origin, chosen, clock.wall_us, clock.monotonic, failed=BackupFailed)


def build(
    found: Recovered,
    clock: Clock,
    *,
    bounds: Bounds | None = None,
    sink_defaults: SinkSettings | None = None,
    instruments: Instruments | None = None,
    on_fenced: Callable[[StoreFenced], None] = lambda _: None,
    measure_memory: Callable[[], Sequence[Reading]] = list,
    on_memory: Callable[[], None] = lambda: None,
    on_deleted: Callable[[], None] = lambda: None,
    ballast: BallastKeeper | None = None,
    codec: RecordCodec,
    accepted: Accepted | None = None,
    delivered: Accepted | None = None,
    backups: Engine | None = None,
    schedule: Schedule | None = None,
    checkpoints: Checkpointing | None = None,
    shard_journal: ShardJournal | None = None,
    fleet: Fleet | None = None,
    page_cache: MakeCache = PageCache,
) -> Broker:
    """Build a broker on a recovered store, and restore its sinks. Blocks. Raises ``StoreFenced``.

    ``accepted`` and ``delivered`` are the counts of such records, which survive a kill. ``on_memory`` is called after
    memory was freed, to return it to the system; ``on_deleted`` after a sink and its state were deleted.
    """
    bounds = bounds or Bounds()
    defaults = sink_defaults or SinkSettings()
    instruments = instruments or Instruments()
    accepted = accepted or AcceptedUnknown()
    fleet = fleet or Fleet()
    journal, start_count = found.journal, found.start_count
    ending = asyncio.Event()
    supervisor = Supervisor(ending)
    read_cache = ReadCache(bounds.tail_bytes, page_cache)
    stream_memory = StreamMemory(bounds.stream_bytes, clock.monotonic, on_shed=instruments.stream_shed)
    youngest = max((stored.age_us for sink in found.sinks for stored in sink.tails.values()), default=0)
    age = AgeClock(clock, found.age, max_step_us=bounds.clock_step_us, at_least_us=youngest)
    if age.rejected_step_us:
        _log.warning("clock jumped while the broker was down seconds=%d", age.rejected_step_us // 1_000_000)

    def fenced(failure: StoreFenced) -> None:
        ending.set()
        on_fenced(failure)

    def memory_changed(overloaded: bool) -> None:
        realtime.relieve(overloaded, on_memory if overloaded else lambda: None)

    committer = Committer(
        journal,
        clock,
        read_cache,
        start_count=start_count,
        waiting_bytes_max=bounds.waiting_bytes,
        beside_bytes=bounds.journal_batch_bytes,
        disk_reserve_bytes=bounds.disk_reserve,
        on_fenced=fenced,
        on_synced=instruments.synced,
        shard_journal=shard_journal,
    )
    realtime = Realtime(
        read_cache, committer, tail_bytes=bounds.tail_bytes, configured=bounds.realtime, chosen=found.realtime
    )
    reclaimer = Reclaimer(journal, committer, found.due, supervisor)
    pages = Pages(journal, read_cache, committer.call, clock)
    memory = MemoryGuard(
        measure_memory,
        high_watermark=bounds.memory_high_watermark,
        waiting_bytes_max=bounds.waiting_bytes,
        on_change=memory_changed,
    )
    quarantine = Quarantine(found.quarantined)
    quota = Quota(bounds.stored_bytes)
    marks = DeliveryMarks(delivered or AcceptedUnknown(), stopped=found.stopped, damaged=bool(found.repairs))
    used = {reserve.slot for stored in found.sinks for reserve in stored.reserves.values()}

    def dead_letter_sink(origin: Sink) -> Target:
        return sinks.dead_letter_sink(origin)

    make_buffer = partial(
        Buffer,
        clock=clock,
        age=age,
        committer=committer,
        reclaimer=reclaimer,
        pages=pages,
        instruments=instruments,
        start_count=start_count,
        quota=quota,
        memory=memory,
        codec=codec,
        dead_letter_sink=dead_letter_sink,
        quarantine=quarantine,
        slots=Slots(accepted, {slot for slot in used if slot is not None}),
        marks=marks,
        supervisor=supervisor,
        owner_epochs=owner_epochs(start_count),
        restored_at_us=found.restored.restored_at_us if found.restored is not None else 0,
    )
    sinks = Sinks(
        make_buffer,
        partial(Writers, committer=committer, pages=pages, start_count=start_count, lost=lost_epochs(found.restored)),
        next_sink=found.next_sink,
        sinks_max=bounds.sinks,
        partitions_max=bounds.partitions,
        defaults=defaults,
        clock=clock,
        committer=committer,
        fleet=fleet,
        quarantine=quarantine,
        instruments=instruments,
        supervisor=supervisor,
        on_deleted=on_deleted,
        replicated=journal.is_replicated(),
    )
    pages.holds.on_over = sinks.wake
    sinks.restore(found.sinks, SinkRecovery(journal, accepted.found, marks, at_us=clock.wall_us()), reclaimer)
    journal.commit([], [PutCounting(start_count)])  # a start killed before it leaves the counts as they are
    accepted.begin()
    marks.begin()
    expirer = Expirer(sinks.running.values, pages)
    epoch_sweep = EpochSweep(committer, pages, sinks.running.values)
    housekeeping = Housekeeping(
        sinks,
        expirer,
        epoch_sweep,
        supervisor=supervisor,
        committer=committer,
        pages=pages,
        age=age,
        memory=memory,
        stream_memory=stream_memory,
        ballast=ballast,
        instruments=instruments,
        flow_log=FlowLog(clock.monotonic),
        on_memory=on_memory,
    )
    return Broker(
        clock=clock,
        bounds=bounds,
        sink_defaults=defaults,
        start_count=start_count,
        journal=journal,
        committer=committer,
        reclaimer=reclaimer,
        pages=pages,
        read_cache=read_cache,
        realtime=realtime,
        quarantine=quarantine,
        quota=quota,
        memory=memory,
        streams=OpenStreams(bounds.streams, clock),
        stream_memory=stream_memory,
        instruments=instruments,
        codec=codec,
        accepted=accepted,
        marks=marks,
        registry=sinks,
        epochs=Epochs(committer, reclaimer, pages, start_count=start_count),
        epoch_sweep=epoch_sweep,
        positions=Positions(committer, found.positions),
        backups=Backups(
            backups,
            clock,
            committer,
            reclaimer,
            schedule=schedule or Schedule(),
            disk_reserve_bytes=bounds.disk_reserve,
        ),
        checkpoints=Checkpoints(
            checkpoints,
            JobThread(committer, reclaimer, clock.monotonic, name="forebay-checkpoint"),
            committer,
        )
        if checkpoints is not None
        else None,
        fleet=fleet,
        expirer=expirer,
        housekeeping=housekeeping,
        supervisor=supervisor,
        ending=ending,
        repairs=found.repairs,
        restored=found.restored,
    )
