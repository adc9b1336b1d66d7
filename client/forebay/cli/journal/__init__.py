"""Commands on the journal of a shard, without a broker."""
