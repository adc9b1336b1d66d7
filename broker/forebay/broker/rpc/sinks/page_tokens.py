"""Page token: the place in a list at which the next call continues, in one incarnation of a sink.

    INCARNATION/PLACE

A place is a partition, an offset, a version or a name, and is valid only in the sink that issued it.
"""

from __future__ import annotations

from typing import Final

from forebay.broker.core.errors import BrokerError, shown
from forebay.broker.core.writes import SinkRecord
from forebay.errors.reasons import Reason

_BETWEEN: Final = "/"


def page_token(sink: SinkRecord, place: str) -> str:
    """Return the token of a place; an empty token for an empty place."""
    return f"{sink.incarnation}{_BETWEEN}{place}" if place else ""


def place_of(sink: SinkRecord, token: str) -> str:
    """Return the place of a token, or an empty one; raises ``INVALID_PAGE_TOKEN``, ``SINK_REPLACED``."""
    if not token:
        return ""
    incarnation, between, place = token.partition(_BETWEEN)
    if not (between and place and token.isascii()):
        raise BrokerError(Reason.INVALID_PAGE_TOKEN, "page_token was not issued by this broker", field="page_token")
    if incarnation != sink.incarnation:
        raise BrokerError(Reason.SINK_REPLACED, sink=sink.name, named=shown(incarnation), current=sink.incarnation)
    return place
