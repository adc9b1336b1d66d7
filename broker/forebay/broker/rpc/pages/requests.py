"""Requests of a publish stream: a large body is a view of the message; protobuf decodes the rest."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.page.format import Bytes
from forebay.page.frames import split_publish_request
from forebay.v1 import buffer_service_pb2 as pb


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Request with a page."""

    page: pb.PublishPage
    """The page without its body."""

    body: Bytes
    """Bytes of the body; a view of a large message."""


def cut(message: bytes) -> PageRequest | None:
    """Return the page of a message in the usual form; None for a small one and for any other."""
    parts = split_publish_request(message)
    return None if parts is None else PageRequest(pb.PublishPage.FromString(parts[0]), parts[1])


def decode(message: bytes) -> PageRequest | pb.PublishRequest:
    """Return any request of a publish stream. Raises ``DecodeError`` for an invalid one."""
    request = pb.PublishRequest.FromString(message)
    return PageRequest(request.page, request.page.body) if request.WhichOneof("request") == "page" else request


def read(message: bytes) -> PageRequest | pb.PublishRequest:
    """Return any request, its page cut out where possible. Raises ``DecodeError`` for an invalid one."""
    return cut(message) or decode(message)
