"""Administration by the asyncio client: the operations of ``forebay.client`` as coroutines.

Each operation is written once, for both clients: arguments, results and errors are the same. What the thread client
iterates over, as ``DeadLetters.list``, is iterated over here with ``async for``.
"""

from __future__ import annotations

from forebay.client.admin.backups import BackupCalls
from forebay.client.admin.dead_letters import DeadLetterCalls
from forebay.client.admin.epochs import EpochCalls
from forebay.client.admin.positions import PositionCalls
from forebay.client.admin.realtime import RealtimeCalls
from forebay.client.admin.resends import ResendCalls
from forebay.client.admin.schemas import SchemaCalls
from forebay.client.admin.shards import ShardCalls
from forebay.client.admin.sinks import SinkCalls
from forebay.client.admin.subscriptions import SubscriptionCalls
from forebay.client.transport.operations import Awaiting


class Backups(BackupCalls, Awaiting):
    """Backups of the brokers of a client."""


class DeadLetters(DeadLetterCalls, Awaiting):
    """Dead letters of a client's sinks."""


class Epochs(EpochCalls, Awaiting):
    """Epochs of a client's sinks."""


class Positions(PositionCalls, Awaiting):
    """Saved positions."""


class Realtime(RealtimeCalls, Awaiting):
    """Realtime switches of the brokers of a client."""


class Resends(ResendCalls, Awaiting):
    """Leased sets of a client's sinks."""


class Schemas(SchemaCalls, Awaiting):
    """Schemas of a client's sinks."""


class Shards(ShardCalls, Awaiting):
    """Shards of the brokers of a client."""


class Sinks(SinkCalls, Awaiting):
    """Sinks of a client's brokers."""


class Subscriptions(SubscriptionCalls, Awaiting):
    """Subscriptions of a client's sinks."""
