"""Stores of bytes: the contract, RocksDB with bulk files, and memory."""
