"""Counts of accepted records that are only in memory, in a file that stays exact after a kill.

A second file of the same form has the ends of the delivered records; see ``runtime.delivery.marks``.

The file is mapped into memory: a count is one aligned write of eight bytes before the receipt, without a system call.
The mapped pages belong to the kernel and survive the process, but a power loss may leave any mix of old and new ones.
So the file begins with the boot id of the machine and the number of the start that wrote it. A later start trusts the
counts only under the same boot id, and if the store has the same start as the last that began to count. A start that
was killed before it had taken over the old state accepted nothing, and leaves the counts to the next. The file is
allocated before it is mapped: a write into a hole on a full disk would kill the process.

    magic 8 bytes, boot id 16 bytes, start count u64, CRC-32 of these u32, zeros up to 64 bytes, then one u64 per slot
"""

from __future__ import annotations

import logging
import mmap
import os
import struct
import zlib
from pathlib import Path
from typing import Final

from forebay.broker.storage.file_errors import naming
from forebay.broker.storage.permissions import FILE_MODE

_log: Final = logging.getLogger(__name__)
ACCEPTED: Final = b"FBACCEPT"
DELIVERED: Final = b"HFDELIVR"
_HEADER: Final = struct.Struct(">8s16sQ")
_CRC: Final = struct.Struct(">I")
_SLOTS_AT: Final = 64
_SLOT_BYTES: Final = 8
STEP_SLOTS: Final = 8_192
"""Slots allocated at once."""
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id(path: Path = BOOT_ID) -> bytes | None:
    """Return the boot id of the machine; None if the system has none."""
    try:
        found = bytes.fromhex(path.read_text(encoding="ascii").strip().replace("-", ""))
    except (OSError, ValueError):
        return None
    return found if len(found) == 16 else None


class AcceptedFile:
    """Mapped file of counts, until ``close``. Without it no count is known after a crash."""

    def __init__(
        self, path: Path, *, counting: int, start_count: int, boot: bytes | None, magic: bytes = ACCEPTED
    ) -> None:
        """Read the counts of start ``counting``; ``begin`` resets the file for ``start_count``."""
        self._path: Final = path
        self._magic = magic
        self._counting = counting
        self._start_count = start_count
        self._boot = boot
        self._handle: int | None = None
        self._map: mmap.mmap | None = None
        self._slots: memoryview[int] | None = None
        self.found: tuple[int, ...] | None = None
        """Counts by slot if the last process of this boot was killed, else None."""
        if boot is None:
            _log.warning("the system has no boot id: after a kill the accepted and delivered counts are unknown")
            return
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
            with naming(path):
                self.found = self._read(os.pread(self._handle, os.fstat(self._handle).st_size, 0))
        except OSError as error:
            self._give_up(error)

    def _read(self, content: bytes) -> tuple[int, ...] | None:
        if len(content) < _SLOTS_AT:
            return None
        fixed = content[: _HEADER.size]
        magic, boot, start_count = _HEADER.unpack(fixed)
        whole = magic == self._magic and _CRC.unpack_from(content, _HEADER.size)[0] == zlib.crc32(fixed)
        if not whole or boot != self._boot or start_count != self._counting:
            return None
        slots = (len(content) - _SLOTS_AT) // _SLOT_BYTES
        return struct.unpack_from(f"={slots}Q", content, _SLOTS_AT)

    def begin(self) -> None:
        """Reset the file for this start; the counts of the last one are stored elsewhere by now."""
        if self._handle is None or self._boot is None:
            return
        try:
            self._allocate(STEP_SLOTS)
            with naming(self._path):
                os.pwrite(self._handle, bytes(_SLOTS_AT), 0)  # a kill from here on leaves a file without counts
            assert self._slots is not None, "an allocated file is mapped"
            for slot in range(len(self._slots)):
                self._slots[slot] = 0
            fixed = _HEADER.pack(self._magic, self._boot, self._start_count)
            with naming(self._path):
                os.pwrite(self._handle, fixed + _CRC.pack(zlib.crc32(fixed)), 0)
        except OSError as error:
            self._give_up(error)

    def has_room(self, slot: int) -> bool:
        """Return whether a count can be stored at ``slot``, after an allocation if necessary."""
        if self._slots is None:
            return False
        if slot >= len(self._slots):
            try:
                self._allocate(-(-(slot + 1) // STEP_SLOTS) * STEP_SLOTS)
            except OSError as error:
                _log.warning(
                    "the counts could not be extended: a kill cannot be distinguished from a power loss cause=%s", error
                )
                return False
        return True

    def note(self, slot: int, count: int) -> None:
        """Store the end of the accepted offsets."""
        if self._slots is not None:
            self._slots[slot] = count

    def close(self) -> None:
        """Close the file."""
        self._unmap()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _allocate(self, slots: int) -> None:
        assert self._handle is not None, "the file is open"
        size = _SLOTS_AT + slots * _SLOT_BYTES
        with naming(self._path):
            os.posix_fallocate(self._handle, 0, size)
        made = mmap.mmap(self._handle, 0)  # before the old one goes: if it fails, the counts are still stored
        self._unmap()
        self._map = made
        whole = len(made) // _SLOT_BYTES * _SLOT_BYTES
        self._slots = memoryview(made)[_SLOTS_AT:whole].cast("Q")

    def _unmap(self) -> None:
        if self._slots is not None:
            self._slots.release()
            self._slots = None
        if self._map is not None:
            self._map.close()
            self._map = None

    def _give_up(self, error: OSError) -> None:
        _log.warning("the counts could not be stored: a kill cannot be distinguished from a power loss cause=%s", error)
        self.close()


IN_MEMORY: Final = 64
"""Slots of the counts in memory, at least."""


class AcceptedInMemory:
    """Counts of a broker in memory; a test sets those that the next start finds."""

    def __init__(self, found: tuple[int, ...] | None = None) -> None:
        self.found = found
        self.counts: dict[int, int] = {}

    def begin(self) -> None:
        """Start with no counts."""
        self.counts = {}

    def has_room(self, slot: int) -> bool:
        return slot >= 0

    def note(self, slot: int, count: int) -> None:
        self.counts[slot] = count

    def close(self) -> None:
        """Do nothing."""

    def killed(self) -> AcceptedInMemory:
        """Return the counts that a start finds after a kill; a missing one is zero, as in the file."""
        places = max(IN_MEMORY, max(self.counts, default=-1) + 1)
        return AcceptedInMemory(tuple(self.counts.get(slot, 0) for slot in range(places)))
