"""Start count, the last start that counted its accepted records, and the last orderly stop.

Each start writes the start count before anything else.
"""

from __future__ import annotations

from typing import Final

from forebay.broker.core.writes import PutCounting, PutStopped
from forebay.broker.storage.records.kind import OfStore
from forebay.broker.storage.records.sealed import NUMBER

START: Final = OfStore(
    name="start count",
    prefix=b"\x02",
    codec=NUMBER,
    lives="the store's life; rises with every start",
    damaged="goes on above that of every page",
)
COUNTING: Final = OfStore(
    name="counting start",
    prefix=b"\x06",
    codec=NUMBER,
    lives="the store's life; set by every start that has taken over the state of the last one",
    damaged="taken for the last start",
    puts=PutCounting,
)
STOPPED: Final = OfStore(
    name="stopped start",
    prefix=b"\x07",
    codec=NUMBER,
    lives="the store's life; set by every orderly stop",
    damaged="taken for a start that was killed",
    puts=PutStopped,
)
