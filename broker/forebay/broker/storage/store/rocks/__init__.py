"""Store in RocksDB, with the bulk files beside it."""
