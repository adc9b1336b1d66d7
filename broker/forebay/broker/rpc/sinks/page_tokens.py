"""Page tokens: the place in a list where the next call continues, in one incarnation of a sink.

    INCARNATION/PLACE

A place is a partition, an offset, a version or a name, and is valid only in the sink that issued it.
"""

from __future__ import annotations

from typing import Final

from forebay.broker.core.errors import InvalidPageToken, SinkReplaced
from forebay.broker.core.writes import SinkRecord

_BETWEEN: Final = "/"


def page_token(sink: SinkRecord, place: str) -> str:
    """Return the token of a place; an empty token for an empty place."""
    return f"{sink.incarnation}{_BETWEEN}{place}" if place else ""


def place_of(sink: SinkRecord, token: str) -> str:
    """Return the place of a token, or an empty one; raises ``InvalidPageToken``, ``SinkReplaced``."""
    if not token:
        return ""
    incarnation, between, place = token.partition(_BETWEEN)
    if not (between and place and token.isascii()):
        raise InvalidPageToken("page_token was not issued by this broker", field="page_token")
    if incarnation != sink.incarnation:
        raise SinkReplaced(sink.name, incarnation, sink.incarnation)
    return place
