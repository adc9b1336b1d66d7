"""Storage on disk: stored values and pages, their families of keys, and their durability.

``contract`` defines a store, ``rocks`` implements it on disk and ``memory`` in memory.
RocksDB is imported by ``rocks`` alone, so nothing is re-exported here.
"""

from __future__ import annotations
