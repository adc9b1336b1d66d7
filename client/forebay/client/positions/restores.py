"""Positions in the broker itself, which went back with it when it was restored from a backup.

A position in another store is at least as new as the restored broker: it lies in the gap of the restore. One in the
broker is that of the backup, so records that were finished after the backup are read again. That is a repeat, which
`at least once` allows and the log shows. `At most once` does not, so it is an error unless ``on_misfit`` is `earliest`.
"""

from __future__ import annotations

import logging

from forebay.client.admin.sinks import Sinks
from forebay.client.errors import PositionUnusable
from forebay.client.positions.position import PositionKey, SavedPosition
from forebay.client.positions.settings import ConsumerSettings, Guarantee
from forebay.client.positions.start import OnMisfit
from forebay.client.values.records import DropReason, Gap

_log = logging.getLogger(__name__)


def last_restores(sinks: Sinks, sink: str) -> dict[int, Gap]:
    """Return the gap of the last restore by partition."""
    return {gap.partition: gap for gap in sinks.gaps(sink) if gap.reason is DropReason.RESTORED}


def check_restored(
    key: PositionKey, saved: SavedPosition | None, restore: Gap | None, settings: ConsumerSettings
) -> None:
    """Log that a position may be older than what was finished.

    Raises ``PositionUnusable`` where nothing may be read again.
    """
    if restore is None or (saved is not None and (saved.saved_at > restore.at or saved.offset >= restore.first_offset)):
        return
    if saved is None:
        _log.warning(
            "the broker was restored from a backup that has no position of this consumer: one that was saved since is "
            "lost consumer=%s sink=%s partition=%d restored_at=%s",
            *(key.consumer, key.sink, key.partition, restore.at.isoformat()),
        )
        return
    if settings.guarantee == Guarantee.AT_MOST_ONCE and settings.on_misfit != OnMisfit.EARLIEST:
        raise PositionUnusable(
            f"the saved position {saved.offset} of partition {key.partition} was restored with the broker: records up "
            f"to {restore.first_offset - 1} may have been handed out after the backup; set on_misfit to 'earliest' to "
            "read them again, or delete the position and start after them",
            facts={"partition": str(key.partition), "saved_offset": str(saved.offset), "state": "restored"},
        )
    _log.warning(
        "the saved position was restored with the broker: records that were finished after the backup are read again "
        "consumer=%s sink=%s partition=%d position=%d end_of_backup=%d restored_at=%s",
        *(key.consumer, key.sink, key.partition, saved.offset, restore.first_offset, restore.at.isoformat()),
    )
