"""The byte level: what is kept on disk, in which family, and when it is durable.

``contract`` says what a store does, ``rocks`` does it on disk and ``memory`` in memory.
RocksDB is imported by ``rocks`` alone, so nothing is re-exported here.
"""

from __future__ import annotations
