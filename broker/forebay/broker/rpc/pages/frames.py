"""Responses with pages, as bytes: a body is copied once on output. See ``forebay.page.frames``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from forebay.broker.core.partition.pages import Body, Entry
from forebay.broker.rpc import convert
from forebay.page import frames
from forebay.v1 import buffer_service_pb2 as pb


def serialized(response: Any) -> bytes:
    """Return the wire form of a response; bytes are in it already."""
    return response if isinstance(response, bytes) else bytes(response.SerializeToString())


def delivery(rest: pb.Delivery, pages: Iterable[tuple[Entry, Body]]) -> bytes:
    """Return a ``DeliverResponse`` with a delivery that has ``rest`` and these pages."""
    return frames.deliver_response(rest.SerializeToString(), map(_stored, pages))


def replay_pages(pages: Iterable[tuple[Entry, Body]]) -> bytes:
    """Return a ``ReplayResponse`` with these pages."""
    return frames.replay_response(map(_stored, pages))


def _stored(page: tuple[Entry, Body]) -> frames.StoredPage:
    entry, body = page
    return convert.page_head(entry, body).SerializeToString(), body.data
