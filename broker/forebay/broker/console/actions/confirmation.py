"""Confirmation of an action: the previewed request itself, sealed for the one who saw the preview.

A form of another site cannot know it, and a request that differs from the preview does not fit it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Callable
from typing import Final

VALID_S: Final = 600
"""Time within which a preview can be confirmed."""

_TIME_BYTES: Final = 8
_SEAL_BYTES: Final = 32


class Confirmations:
    """Confirmations of one broker process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._key = secrets.token_bytes(32)

    def sealed(self, principal: str, action: str, request: bytes) -> str:
        """Return the confirmation of a request."""
        content = int(self._clock()).to_bytes(_TIME_BYTES, "big") + request
        return base64.urlsafe_b64encode(self._seal(principal, action, content) + content).decode()

    def opened(self, principal: str, action: str, confirmation: str) -> bytes | None:
        """Return the confirmed request, or None if it is not one that this principal has seen lately."""
        try:
            found = base64.urlsafe_b64decode(confirmation.encode("ascii"))
        except (binascii.Error, UnicodeEncodeError):
            return None
        seal, content = found[:_SEAL_BYTES], found[_SEAL_BYTES:]
        if len(content) < _TIME_BYTES or not hmac.compare_digest(seal, self._seal(principal, action, content)):
            return None
        if self._clock() - int.from_bytes(content[:_TIME_BYTES], "big") > VALID_S:
            return None
        return content[_TIME_BYTES:]

    def _seal(self, principal: str, action: str, content: bytes) -> bytes:
        return hmac.digest(self._key, f"{principal}\0{action}\0".encode() + content, "sha256")
