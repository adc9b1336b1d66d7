"""Time of write stalls, from the statistics of a database.

RocksDB counts it also without its tickers, which would slow each read and write. The binding has it as text only.
"""

from __future__ import annotations

import re
from typing import Final

PROPERTY: Final = "rocksdb.dbstats"
"""Property of a database with its statistics."""

_STALLED: Final = re.compile(r"^Cumulative stall: (\d+):(\d+):(\d+\.\d+) H:M:S", re.MULTILINE)


def stall_s(statistics: str) -> float | None:
    """Return the seconds of all stalls since the database was opened; None if the text does not have them."""
    found = _STALLED.search(statistics)
    if found is None:
        return None
    hours, minutes, seconds = map(float, found.groups())
    return hours * 3_600 + minutes * 60 + seconds
