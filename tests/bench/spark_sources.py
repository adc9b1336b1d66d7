"""Data sources for Spark that do nothing but what Spark asks for: what ours are compared with.

The classes stand inside of functions: so they are pickled by value, for workers that do not have this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def discarding() -> type[Any]:
    """A data source whose writers take rows and do nothing with them."""
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        WriterCommitMessage,
    )
    from pyspark.sql.types import StructType

    @dataclass
    class Discarded(WriterCommitMessage):
        rows: int

    class DiscardingWriter(DataSourceArrowWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            return Discarded(sum(batch.num_rows for batch in iterator))

    class DiscardingStream(DataSourceStreamArrowWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            return Discarded(sum(batch.num_rows for batch in iterator))

    class Discarding(DataSource):
        @classmethod
        def name(cls) -> str:
            return "discarding"

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
            return DiscardingWriter()

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
            return DiscardingStream()

    return Discarding


def from_memory(tasks: int) -> type[Any]:
    """A data source with so many tasks, which yield one batch again and again."""

    def read(options: dict[str, str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with pa.memory_map(options["path"]) as file:
            batch = pa.ipc.open_file(file).get_batch(0)
            for _ in range(int(options["batches"])):
                yield batch

    return _source("from-memory", tasks, read)


def from_stream(tasks: int) -> type[Any]:
    """A data source with so many tasks, to which a bare gRPC stream brings one batch again and again.

    The server is that of ``echo``. Nothing is stored or checked: no reader that has its rows from another process by
    gRPC is faster.
    """

    def read(options: dict[str, str]) -> Iterator[pa.RecordBatch]:
        import json

        import grpc
        import pyarrow as pa

        wanted = {"path": options["path"], "times": int(options["batches"])}
        with grpc.insecure_channel(
            options["endpoint"], options=[("grpc.max_receive_message_length", 32 << 20)]
        ) as channel:
            download: Any = channel.unary_stream(options["method"])
            for message in download(json.dumps(wanted).encode()):
                yield pa.ipc.open_file(message).get_batch(0)

    return _source("from-stream", tasks, read)


def _source(source: str, tasks: int, read_all: Callable[[dict[str, str]], Iterator[pa.RecordBatch]]) -> type[Any]:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
    from pyspark.sql.types import StructType

    class Reader(DataSourceReader):
        def __init__(self, options: dict[str, str]) -> None:
            self.options = options

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(tasks)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return read_all(self.options)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return source

        def schema(self) -> str:
            return self.options["types"]

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader(dict(self.options))

    return Source
