"""Public API of the Python client of Forebay."""

from __future__ import annotations

from forebay.client import errors
from forebay.client.admin.backups import Backups
from forebay.client.admin.dead_letters import DeadLetters
from forebay.client.admin.epochs import Epochs
from forebay.client.admin.resends import Resends
from forebay.client.admin.schemas import Schemas
from forebay.client.admin.sinks import Sinks
from forebay.client.admin.subscriptions import Subscriptions
from forebay.client.client import Client
from forebay.client.consume.delivery import Delivery
from forebay.client.consume.subscriber import Subscriber
from forebay.client.errors import *  # noqa: F403 - its `__all__` is the list of the errors
from forebay.client.positions.start import from_saved
from forebay.client.publish.core import partition_of
from forebay.client.publish.pages import EncodedPage
from forebay.client.publish.publisher import Publisher
from forebay.client.replay.pages import PageReplay, ReplayOptions
from forebay.client.replay.records import RecordReplay
from forebay.client.replay.sinks import SinkReplay
from forebay.client.settings import (
    ClientSettings,
    PublisherSettings,
    RetryPolicy,
    TlsSettings,
)
from forebay.client.shards.shard import RepeatedSink, Shard
from forebay.client.values.backups import Backup, BackupProgress, BackupStatus
from forebay.client.values.brokers import BrokerInfo, HandOver, RealtimeState
from forebay.client.values.connections import ConnectedStream, Connection
from forebay.client.values.dead_letters import DeadLetter, DeadLetterReason
from forebay.client.values.epochs import (
    CommittedEpochs,
    Epoch,
    EpochCheck,
    EpochCommit,
    EpochContent,
    EpochPart,
    Producer,
    Stage,
    StagedPart,
    StagedSummary,
    StagedToken,
)
from forebay.client.values.explanations import (
    Explanation,
    Purged,
    RecordFlight,
    RecordLease,
    RecordPlace,
    RecordState,
    WaitReason,
)
from forebay.client.values.records import (
    DeliveredRecord,
    DropReason,
    Durability,
    Encoding,
    Gap,
    PagePart,
    PeekedRecord,
    Receipt,
    Record,
    ReplayedRecord,
    SettleOutcome,
    SettleResult,
    StoredPage,
)
from forebay.client.values.resends import ResendRanges, ResendSet
from forebay.client.values.schemas import Schema
from forebay.client.values.sink_settings import BufferMode, Ordering, Overflow, SinkSettings
from forebay.client.values.sinks import (
    DeliveryState,
    LifetimeTotals,
    PartitionStats,
    PathLag,
    ReaderMode,
    ReplayStats,
    Sink,
    SinkStats,
    SubscriptionPartitionStats,
    SubscriptionStats,
)
from forebay.client.values.subscriptions import (
    Position,
    SettledPartition,
    Subscription,
    SubscriptionPlace,
)
from forebay.page.columns import Columns

__all__ = [
    "Backup",
    "BackupProgress",
    "BackupStatus",
    "Backups",
    "BrokerInfo",
    "BufferMode",
    "Client",
    "ClientSettings",
    "Columns",
    "CommittedEpochs",
    "ConnectedStream",
    "Connection",
    "DeadLetter",
    "DeadLetterReason",
    "DeadLetters",
    "DeliveredRecord",
    "Delivery",
    "DeliveryState",
    "DropReason",
    "Durability",
    "EncodedPage",
    "Encoding",
    "Epoch",
    "EpochCheck",
    "EpochCommit",
    "EpochContent",
    "EpochPart",
    "Epochs",
    "Explanation",
    "Gap",
    "HandOver",
    "LifetimeTotals",
    "Ordering",
    "Overflow",
    "PagePart",
    "PageReplay",
    "PartitionStats",
    "PathLag",
    "PeekedRecord",
    "Position",
    "Producer",
    "Publisher",
    "PublisherSettings",
    "Purged",
    "ReaderMode",
    "RealtimeState",
    "Receipt",
    "Record",
    "RecordFlight",
    "RecordLease",
    "RecordPlace",
    "RecordReplay",
    "RecordState",
    "RepeatedSink",
    "ReplayOptions",
    "ReplayStats",
    "ReplayedRecord",
    "ResendRanges",
    "ResendSet",
    "Resends",
    "RetryPolicy",
    "Schema",
    "Schemas",
    "SettleOutcome",
    "SettleResult",
    "SettledPartition",
    "Shard",
    "Sink",
    "SinkReplay",
    "SinkSettings",
    "SinkStats",
    "Sinks",
    "Stage",
    "StagedPart",
    "StagedSummary",
    "StagedToken",
    "StoredPage",
    "Subscriber",
    "Subscription",
    "SubscriptionPartitionStats",
    "SubscriptionPlace",
    "SubscriptionStats",
    "Subscriptions",
    "TlsSettings",
    "WaitReason",
    "from_saved",
    "partition_of",
]
__all__ += errors.__all__
