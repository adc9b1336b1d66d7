"""Settings of the store on disk: its memory, files and threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """Bounds of memory, files and threads. The defaults stay below 200 MiB of memory."""

    block_cache_bytes: int = 64 * _MIB
    """Block cache of all families but bulk, which uses the page cache of the system."""

    write_buffers_bytes: int = 64 * _MIB
    """Memory of unflushed writes, over all families."""

    log_bytes_max: int = 128 * _MIB
    """Bound of the log that a start has to read; at the bound, families are flushed."""

    open_tables_max: int = 256
    """Tables held open at once."""

    open_bulk_max: int = 256
    """Files of bulk held open at once."""

    open_files_beside: int = 256
    """Further files that the process must be able to open: logs, files being written, those of Python."""

    background_jobs: int = 2
    """Threads that write and compact tables."""

    opens_damaged: bool = True
    """Open a database of which a table cannot be read, without that table."""

    unreadable_is_damage: bool = False
    """Treat unreadable parts as damaged: for salvage tools, by decision of an operator."""

    opens_incomplete: bool = False
    """Open a directory with remote files, without these: to read what else it has."""
