"""Model of a sink of any buffer mode: confirmed and settled records, and the losses of a crash.

The history in ``test_tier_model`` does things to a broker and tells the model; the model says what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason, Durability, Entry


@dataclass(slots=True)
class Record:
    """One record that was answered with a receipt."""

    value: bytes
    acked: bool = False
    gone: bool = False
    """A gap has replaced it."""

    level: Durability = Durability.DISK
    """State as of the last check."""


@dataclass(slots=True)
class Partition:
    """One partition as its publishers and its only subscription should see it."""

    records: dict[int, Record] = field(default_factory=dict)
    """By offset."""

    lost: int = 0
    """Records that crashes took: from memory, and with a power loss what no sync had covered."""

    torn: list[range] = field(default_factory=list)
    """Offsets of each page that was damaged while it was needed."""

    def append(self, first: int, values: list[bytes]) -> None:
        """A receipt: no offset is given out twice, and they rise."""
        assert first > max(self.records, default=-1), f"offset {first} was given out before"
        self.records.update({first + index: Record(value) for index, value in enumerate(values)})

    def live(self) -> list[int]:
        """Offsets that have to come."""
        return [offset for offset, record in self.records.items() if not record.acked and not record.gone]

    def look(self, log: PartitionLog) -> None:
        """Learn of drops, and how safe the others are."""
        for offset, record in self.records.items():
            if not record.acked:
                record.gone = log.gap_at(offset) is not None
        for entry in log.held.values():
            for offset in range(entry.base, entry.end):
                if offset in self.records:
                    self.records[offset].level = Durability.MEMORY
        for offset, record in self.records.items():
            if not any(entry.base <= offset < entry.end for entry in log.held.values()):
                record.level = Durability.DISK if offset < log.synced else Durability.PROCESS

    def damage(self, values: list[bytes], log: PartitionLog) -> None:
        """The page of these records cannot be read any more; it was needed unless it was dropped, or may be trimmed."""
        first = next(offset for offset, record in self.records.items() if record.value == values[0])
        page = range(first, first + len(values))
        assert [self.records[offset].value for offset in page] == values, f"the page of {first} is stored otherwise"
        if log.gap_at(first) is None and any(offset < page.stop for offset in self.live()):
            self.torn.append(page)
            for offset in page:
                self.records[offset].gone = not self.records[offset].acked

    def crashed(self, log: PartitionLog, *, survives: Durability, exact: bool) -> None:
        """Records that had reached ``survives`` are stored; the others are a counted gap."""
        for offset in self.live():
            record = self.records[offset]
            record.gone = log.gap_at(offset) is not None
            assert not record.gone or record.level < survives, f"{offset} was {record.level.name} and is lost"
            self.lost += record.gone
            assert record.gone or record.level is not Durability.MEMORY, f"{offset} came back from memory"
        if exact:
            assert dict(log.head.dropped).get(int(DropReason.LOST_IN_CRASH), 0) == self.lost, (
                "the loss is not counted exactly"
            )
            assert not any(gap.at_most for gap in log.gaps)

    def check(self, log: PartitionLog, cursor: Cursor, entries: list[Entry]) -> None:
        """The account balances and is this one; the counters are those of what is stored."""
        end = log.tail.next_offset
        assert cursor.balances(end)
        live = self.live()
        assert cursor.pending(end) == len(live), f"{cursor.pending(end)} pending, {live} should be"
        assert cursor.acked == sum(record.acked for record in self.records.values())
        assert all(not cursor.is_settled(offset) for offset in live)
        assert log.records == sum(entry.count for entry in entries)
        assert (log.size, log.pages) == (sum(entry.size for entry in entries), len(entries))
        gaps = [range(gap.first, gap.end) for gap in log.gaps if gap.reason is DropReason.CORRUPT]
        assert gaps == sorted(self.torn, key=lambda page: page.start), "the gaps are not the damaged pages"
        assert dict(log.head.dropped).get(int(DropReason.CORRUPT), 0) == sum(map(len, self.torn))
        stored = {offset for entry in entries for offset in range(entry.base, entry.end)}
        assert set(live) <= stored, f"{set(live) - stored} cannot be read"
