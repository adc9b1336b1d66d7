"""Readers of requests: bytes to a message, or the error that ends the call.

Each call has a reader that is built from its descriptor, so that a new call is bounded without a change here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf import descriptor_pool
from google.protobuf.message import DecodeError

from forebay.broker.core.errors import InvalidRequest
from forebay.broker.rpc.pages import requests as page_requests
from forebay.broker.rpc.requests.bounds import bounds_of
from forebay.broker.rpc.requests.numbers import Numbers, check_number, numbers_of
from forebay.broker.rpc.requests.scan import check
from forebay.broker.rpc.requests.shapes import Shape, shape_of

Read = Callable[[bytes], Any]
PUBLISH: Final = "/forebay.v1.BufferService/Publish"


class RequestReader:
    """Reads the requests of one call."""

    def __init__(self, method: str, decode: Read) -> None:
        """``method`` is the full name; ``decode`` raises ``DecodeError`` for an invalid message."""
        self._decode = decode
        self._bounds = bounds_of(method)
        self._shape, numbers = _fields(method)
        self._numbers = numbers if numbers else None
        self._unchecked_bytes = min(
            self._bounds.harmless_bytes if self._shape.places else 1 << 62, self._bounds.bytes_max
        )

    def __call__(self, message: bytes) -> Any:
        """Read a request. Raises ``RequestTooLarge``, ``InvalidRequest``, ``NUMBER_OUT_OF_RANGE``."""
        if len(message) > self._unchecked_bytes:
            check(message, self._shape, self._bounds)
        try:
            found = self._decode(message)
        except DecodeError as error:
            raise InvalidRequest("the request is not a message of its type: protobuf cannot decode it") from error
        if isinstance(found, page_requests.PageRequest):
            check_number(found.page.sequence, "page.sequence")
        elif self._numbers is not None:
            self._numbers.check(found)
        return found


class PublishReader(RequestReader):
    """Reader of the messages of a publish stream: it skips the body of a page in the usual form."""

    def __init__(self) -> None:
        super().__init__(PUBLISH, page_requests.decode)

    def __call__(self, message: bytes) -> Any:
        """Build the reader; a page that was cut out has no elements to count."""
        found = page_requests.cut(message)
        if found is None:
            return super().__call__(message)
        check_number(found.page.sequence, "page.sequence")
        return found


def reader_of(method: str, decode: Read) -> Read:
    """Return the reader of a call's requests."""
    return PublishReader() if method == PUBLISH else RequestReader(method, decode)


def _fields(method: str) -> tuple[Shape, Numbers]:
    """Return the counted fields and numbers of a call's requests; an unknown call has a bound in bytes."""
    service, _, name = method.lstrip("/").partition("/")
    try:
        message = descriptor_pool.Default().FindMethodByName(f"{service}.{name}").input_type
    except KeyError:
        return Shape(), Numbers()
    return shape_of(message), numbers_of(message)
