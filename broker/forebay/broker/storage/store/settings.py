"""Settings of the store on disk: its share of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """Bounds of memory, files and threads. The defaults stay below 200 MiB of memory."""

    block_cache_bytes: int = 64 * _MIB
    """Memory for blocks read, of all families but bulk, which is left to the system's page cache."""

    write_buffers_bytes: int = 64 * _MIB
    """Memory for what is written and not yet in a table, all families together."""

    log_bytes_max: int = 128 * _MIB
    """Log that a start may have to read again; beyond it, tables are written early."""

    open_tables_max: int = 256
    """Tables held open at once."""

    open_bulk_max: int = 256
    """Files of bulk held open at once."""

    open_files_beside: int = 256
    """Files the process must be able to open on top: logs, files being written, what Python needs."""

    background_jobs: int = 2
    """Threads that write and compact tables."""

    unreadable_is_damage: bool = False
    """Treat unreadable parts as damaged: for salvage tools, by decision of an operator."""
