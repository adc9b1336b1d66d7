"""CRC-32 of a page: by isal where it is installed, which is five times as fast, else by zlib."""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
