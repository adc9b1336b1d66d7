"""Options of RocksDB: one set for the database, one for each family.

``BULK`` has a few ranges of keys, see ``rocks``. The other families are queues: most of their entries are deleted soon.
"""

from __future__ import annotations

from typing import Final

from rocksdict import BlockBasedOptions, Cache, ChecksumType, DBCompressionType, DBRecoveryMode, Options

from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.settings import RocksSettings

_MIB: Final = 1024 * 1024
_MANIFEST_BYTES: Final = 4 * _MIB
"""Size at which RocksDB writes a new manifest: a checkpoint copies it while appends wait."""
_WRITE_BUFFERS: Final = {Family.BULK: 1, Family.SMALL: 16, Family.INDEX: 8, Family.META: 4}
"""Size of the write buffer of each family, in MiB."""


def database_options(settings: RocksSettings) -> Options:
    """Return the options of the database."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_max_total_wal_size(settings.log_bytes_max)
    options.set_db_write_buffer_size(settings.write_buffers_bytes)
    options.set_max_open_files(settings.open_tables_max)
    options.set_max_background_jobs(settings.background_jobs)
    options.set_bytes_per_sync(_MIB)
    options.set_max_manifest_file_size(_MANIFEST_BYTES)
    options.set_keep_log_file_num(4)
    options.set_max_log_file_size(4 * _MIB)
    options.set_stats_dump_period_sec(0)
    return options


def family_options(family: Family, cache: Cache) -> Options:
    """Return the options of a family."""
    options = Options(raw_mode=True)
    blocks = BlockBasedOptions()
    options.set_max_compaction_bytes(256 * _MIB)
    options.set_target_file_size_base(32 * _MIB)
    options.set_write_buffer_size(_WRITE_BUFFERS[family] * _MIB)
    # Queues delete from their head: a table of mostly deletions is compacted soon.
    options.add_compact_on_deletion_collector_factory(1024, 512, 0.5)
    blocks.set_block_size(16 * 1024)
    blocks.set_block_cache(cache)
    if family is Family.SMALL:  # pages have their own checksum, and their producer may have compressed them
        options.set_compression_type(DBCompressionType.none())
        blocks.set_checksum_type(ChecksumType.no_checksum())
    else:
        options.set_compression_type(DBCompressionType.lz4())
        blocks.set_bloom_filter(10, False)
    options.set_block_based_table_factory(blocks)
    return options
