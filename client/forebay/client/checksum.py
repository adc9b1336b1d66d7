"""The CRC-32 of a page: by the faster library where it is installed (`forebay[broker]` brings it), else by zlib."""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
